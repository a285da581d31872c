//! The events that come first, of very many, in an order that somebody asked for.
//!
//! Where all are wanted they are kept [packed](super::packed), in runs that are in order by themselves; whoever goes
//! through them gets the runs merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use heapledger_format::Site;

use super::packed::{EventRun, EventRunIter};
use super::{Event, EventKind, Sink};
use crate::fold::{Act, Fold};
use crate::query::SortKeys;

/// Events of a run: while they are collected they take 300 bytes each. (Few in tests.)
const RUN: usize = if cfg!(test) { 1 << 11 } else { 1 << 13 };
/// As many are collected at most if some are thrown away.
const ROOM_MAX: usize = if cfg!(test) { 1 << 13 } else { 1 << 16 };
/// Events that are collected at least before those that are not among the first are thrown away.
const ROOM_MIN: usize = 1024;

/// Time, number, which half, number of the block: different for any two events.
pub(super) type EventKey = (u64, u64, u8, u64);

/// What was asked for, if anything was; then the key.
type EventRank = (Box<[u64]>, EventKey);

/// Where events come.
#[derive(Clone, Debug, Default)]
struct Order {
    /// By time if there are none.
    keys: Option<SortKeys>,
    reverse: bool,
}

impl Order {
    fn place(&self, event: &Event) -> EventRank {
        let (time, number, half, block) = event.key();
        let key = if self.reverse { (!time, !number, !half, !block) } else { (time, number, half, block) };
        // An empty box takes no memory.
        let mut ranks = self.keys.as_ref().map_or_else(Box::default, |keys| keys.ranks(&event.as_entry()));
        if self.reverse {
            ranks.iter_mut().for_each(|rank| *rank = !*rank);
        }
        (ranks, key)
    }
}

fn knows_of_free(event: &Event) -> bool {
    matches!(event.kind, EventKind::Allocation { freed: Some(_) })
}

/// Events in order. Many of them are held packed.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    runs: Vec<EventRun>,
    order: Order,
    count: usize,
    /// How many the runs hold: with those that are not among the first, and what is held twice.
    held: usize,
}

impl EventList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The events, one after the other.
    pub fn iter(&self) -> EventIter<'_> {
        EventIter { left: self.count, ..self.merged() }
    }

    /// However many there are.
    fn merged(&self) -> EventIter<'_> {
        let heads = self.runs.iter().filter_map(|run| {
            let mut rest = run.iter();
            let event = rest.next()?;
            Some(EventRunHead { place: Reverse(self.order.place(&event)), next: Box::new((event, rest)) })
        });
        EventIter { heads: heads.collect(), order: &self.order, left: usize::MAX }
    }

    /// Their call sites, in no particular order and each as often as it comes.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        let all = self.held == self.count;
        let any_order = self.runs.iter().filter(move |_| all).flat_map(EventRun::iter);
        let in_order = (!all).then(|| self.iter()).into_iter().flatten();
        any_order.chain(in_order).map(|event| event.site())
    }
}

impl<'e> IntoIterator for &'e EventList {
    type Item = Event;
    type IntoIter = EventIter<'e>;

    fn into_iter(self) -> EventIter<'e> {
        self.iter()
    }
}

/// The next event of a run.
#[derive(Clone, Debug)]
struct EventRunHead<'e> {
    /// The heap has the greatest on top, and that is to be the one that comes first.
    place: Reverse<EventRank>,
    /// With those that follow it; apart, because heads are moved often.
    next: Box<(Event, EventRunIter<'e>)>,
}

impl Ord for EventRunHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

impl PartialOrd for EventRunHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EventRunHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for EventRunHead<'_> {}

/// See [`EventList::iter`].
#[derive(Clone, Debug)]
pub struct EventIter<'e> {
    heads: BinaryHeap<EventRunHead<'e>>,
    order: &'e Order,
    left: usize,
}

impl EventIter<'_> {
    fn pop(&mut self) -> Option<(Reverse<EventRank>, Event)> {
        let mut head = self.heads.peek_mut()?;
        match head.next.1.next() {
            Some(event) => {
                let place = std::mem::replace(&mut head.place, Reverse(self.order.place(&event)));
                Some((place, std::mem::replace(&mut head.next.0, event)))
            }
            None => {
                let head = PeekMut::pop(head);
                Some((head.place, head.next.0))
            }
        }
    }
}

impl Iterator for EventIter<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.left = self.left.checked_sub(1)?;
        let (place, mut event) = self.pop()?;
        // A block that was freed while it was read is found twice; what came later is what holds.
        while self.heads.peek().is_some_and(|head| head.place == place) {
            let (_, other) = self.pop()?;
            event = if knows_of_free(&other) { other } else { event };
        }
        Some(event)
    }
}

/// The events that come first, as many as are wanted.
pub(super) struct FirstEvents {
    order: Order,
    collected: Vec<Event>,
    /// Where they come, and where they are.
    places: Vec<(EventRank, u32)>,
    /// No event behind this one is among the first.
    last: Option<EventRank>,
    /// If the first are too many to be sorted at once.
    runs: Vec<EventRun>,
    /// The last events of the runs that end first: as many runs as hold `limit` events.
    ends: BinaryHeap<EventRank>,
    spare: Vec<u8>,
    /// So many at most; 0 is all.
    limit: usize,
    /// How many are collected before they are looked through.
    room: usize,
    /// How many were added.
    total: u64,
    /// How many the runs hold.
    held: usize,
}

impl Sink for FirstEvents {
    const KNOWS_THE_SAME: bool = true;
}

impl Fold<Event> for FirstEvents {
    fn add(&mut self, event: &Event, _: Act, _: u64) {
        self.put(event);
    }

    fn join(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.held += other.held;
        self.last = self.last.take().into_iter().chain(other.last).min();
        self.total += other.total - other.places.len() as u64;
        other.places.iter().filter_map(|(_, at)| other.collected.get(*at as usize)).for_each(|event| self.put(event));
    }
}

impl FirstEvents {
    fn put(&mut self, event: &Event) {
        self.total += 1;
        let place = self.order.place(event);
        if self.last.as_ref().is_some_and(|last| *last < place) {
            return;
        }
        self.places.push((place, self.collected.len() as u32));
        self.collected.push(*event);
        if self.collected.len() >= self.room {
            self.make_room();
        }
    }

    /// Without keys, by time. `reverse` is the other way round; 0 is no limit.
    pub(super) fn new(keys: Option<&SortKeys>, reverse: bool, limit: usize) -> FirstEvents {
        let room = match limit.saturating_mul(2) {
            1..=ROOM_MAX => ROOM_MIN.max(limit * 2),
            _ => RUN,
        };
        FirstEvents {
            order: Order { keys: keys.cloned(), reverse },
            collected: Vec::new(),
            places: Vec::new(),
            last: None,
            runs: Vec::new(),
            ends: BinaryHeap::new(),
            spare: Vec::new(),
            limit,
            room,
            total: 0,
            held: 0,
        }
    }

    fn make_room(&mut self) {
        self.sort();
        if self.limit == 0 {
            self.end_run();
        } else if self.limit > self.room / 2 {
            if self.places.len() > self.room / 2 {
                self.note_end();
                self.end_run();
            }
        } else if self.places.len() > self.limit {
            self.places.truncate(self.limit);
            self.last = self.places.last().map(|(place, _)| place.clone());
        }
        if !self.collected.is_empty() {
            self.keep_ordered();
        }
    }

    /// Forgets what has no place in the order any more.
    fn keep_ordered(&mut self) {
        let mut kept = Vec::with_capacity(self.collected.capacity());
        for (_, at) in &mut self.places {
            let event = self.collected.get(*at as usize).copied();
            *at = kept.len() as u32;
            kept.extend(event);
        }
        self.collected = kept;
    }

    /// What runs that hold `limit` events end before is not among the first. One run more is counted, because some
    /// events may be in two.
    fn note_end(&mut self) {
        let runs = self.limit.div_ceil(self.room / 2) + 1;
        self.ends.extend(self.places.last().map(|(place, _)| place.clone()));
        if self.ends.len() > runs {
            self.ends.pop();
        }
        if self.ends.len() == runs {
            self.last = self.ends.peek().cloned();
        }
    }

    /// Of two that are the same, that which knows of the free stays.
    fn sort(&mut self) {
        // Mostly in order already, in parts; for that this sort is made.
        self.places.sort();
        let (collected, before) = (&mut self.collected, self.places.len());
        self.places.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same
                && let Some(event) = collected.get(later.1 as usize).copied().filter(knows_of_free)
                && let Some(known) = collected.get_mut(kept.1 as usize)
            {
                *known = event;
            }
            same
        });
        self.total -= (before - self.places.len()) as u64;
    }

    /// Packs what is collected and in order.
    fn end_run(&mut self) {
        if !self.places.is_empty() {
            self.held += self.places.len();
            let collected = &self.collected;
            let in_order = self.places.iter().filter_map(|(_, at)| collected.get(*at as usize));
            self.runs.push(EventRun::of(in_order, &mut self.spare));
            self.collected.clear();
            self.places.clear();
        }
    }

    /// These in order, and how many there were in all. `changing` says that a block may have been found twice.
    pub(super) fn sorted(mut self, changing: bool) -> (EventList, u64) {
        self.sort();
        self.end_run();
        let mut list = EventList { runs: self.runs, order: self.order, count: self.held, held: self.held };
        if changing && list.runs.len() > 1 {
            list.count = list.merged().count();
            self.total -= (self.held - list.count) as u64;
        }
        if self.limit != 0 {
            list.count = list.count.min(self.limit);
        }
        (list, self.total)
    }
}

#[cfg(test)]
mod tests {
    use heapledger_format::{FreedEntry, Kind, Site};

    use super::super::packed::tests::events;
    use super::*;

    #[test]
    fn several_workers_find_what_one_sort_gives() {
        let mut events = events(RUN * 9);
        // No two blocks have one number.
        for (event, unique) in events.iter_mut().zip(0..) {
            event.block.number = unique;
            match &mut event.kind {
                EventKind::Free(freed) | EventKind::Allocation { freed: Some(freed) } => freed.block.number = unique,
                EventKind::Allocation { freed: None } => {}
            }
        }
        // Blocks that are found twice, as living and as freed.
        for index in 0..RUN / 4 {
            let Event { block, .. } = events[index * 3];
            events[index * 3].kind = EventKind::Allocation { freed: None };
            let freed = FreedEntry {
                block,
                number: 7,
                later: 0,
                by: Kind::FREE,
                site: Site(1),
                thread: None,
                time: None,
                core: None,
            };
            events.push(Event { block, kind: EventKind::Allocation { freed: Some(freed) } });
        }
        let keys = SortKeys::parse("kind,size:desc").expect("an order");
        for (keys, reverse) in [(None, false), (None, true), (Some(&keys), false), (Some(&keys), true)] {
            let order = Order { keys: keys.cloned(), reverse };
            let mut sorted = events.clone();
            sorted.sort_by_cached_key(|event| (order.place(event), !knows_of_free(event)));
            sorted.dedup_by_key(|event| order.place(event));
            for limit in [0, 1, 1000, ROOM_MAX / 2, ROOM_MAX / 2 + 1, RUN * 20] {
                let mut all = FirstEvents::new(keys, reverse, limit);
                for worker in 0..3 {
                    let mut chosen = FirstEvents::new(keys, reverse, limit);
                    events.iter().skip(worker).step_by(3).for_each(|event| chosen.put(event));
                    all.join(chosen);
                }
                let (list, total) = all.sorted(true);
                let wanted = if limit == 0 { &sorted[..] } else { &sorted[..limit.min(sorted.len())] };
                assert_eq!((list.len(), list.is_empty()), (wanted.len(), false), "{limit}");
                assert!(list.iter().eq(wanted.iter().copied()), "{reverse}, {limit}");
                assert!((sorted.len()..=events.len()).contains(&(total as usize)), "{total} of {}", sorted.len());
                assert!(limit != 0 || total == sorted.len() as u64, "{total} of {}", sorted.len());
                let mut sites: [Vec<Site>; 2] = [list.sites().collect(), wanted.iter().map(Event::site).collect()];
                sites.iter_mut().for_each(|sites| {
                    sites.sort_unstable();
                    sites.dedup();
                });
                assert_eq!(sites[0], sites[1], "{reverse}, {limit}");
            }
        }
        let (none, total) = FirstEvents::new(None, false, 0).sorted(true);
        assert!(none.is_empty() && none.iter().next().is_none() && total == 0);
    }
}
