//! The events that come first, in an order that somebody asked for.

use std::collections::BTreeMap;

use super::{Event, EventKind, Sink};
use crate::query::SortKeys;

/// Time, number, which half, number of the block: different for any two events.
pub(super) type Key = (u64, u64, bool, u64);

/// What was asked for, if anything was; then the key.
type Place = (Box<[u64]>, Key);

/// The events that come first, as many as are wanted. In memory there are never more.
pub(super) struct First<'k> {
    keys: Option<&'k SortKeys>,
    best: BTreeMap<Place, Event>,
    /// Instead, if all are wanted.
    all: Vec<(Place, Event)>,
    limit: usize,
    reverse: bool,
    total: u64,
}

impl<'k> First<'k> {
    /// Without keys, by time. `reverse` is the other way round; 0 is no limit.
    pub(super) fn new(keys: Option<&'k SortKeys>, reverse: bool, limit: usize) -> First<'k> {
        First { keys, best: BTreeMap::new(), all: Vec::new(), limit, reverse, total: 0 }
    }

    fn place(&self, event: &Event) -> Place {
        let (time, number, half, block) = event.key();
        let key = if self.reverse { (!time, !number, !half, !block) } else { (time, number, half, block) };
        // An empty box takes no memory.
        let mut ranks = self.keys.map_or_else(Box::default, |keys| keys.ranks(&event.as_entry()));
        if self.reverse {
            ranks.iter_mut().for_each(|rank| *rank = !*rank);
        }
        (ranks, key)
    }

    /// The events in order, and how many there were.
    pub(super) fn into_events(mut self) -> (Vec<Event>, u64) {
        if self.limit != 0 {
            return (self.best.into_values().collect(), self.total);
        }
        // In place. Of two that are the same, the later one stays: that which knows of the free.
        let freed = |event: &Event| matches!(event.kind, EventKind::Allocation { freed: Some(_) });
        let order = |one: &(Place, Event), other: &(Place, Event)| {
            one.0.cmp(&other.0).then_with(|| freed(&one.1).cmp(&freed(&other.1)))
        };
        self.all.sort_unstable_by(order);
        self.all.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        let total = self.all.len() as u64;
        (self.all.into_iter().map(|(_, event)| event).collect(), total)
    }
}

impl Sink for First<'_> {
    const KNOWS_THE_SAME: bool = true;

    fn add(&mut self, event: Event) {
        self.total += 1;
        let place = self.place(&event);
        if self.limit == 0 {
            self.all.push((place, event));
            return;
        }
        if self.best.len() >= self.limit && self.best.last_key_value().is_some_and(|(last, _)| *last < place) {
            return;
        }
        // A block that was freed while it was read is found twice; what came later is what holds.
        if self.best.insert(place, event).is_some() {
            self.total -= 1;
        } else if self.best.len() > self.limit {
            self.best.pop_last();
        }
    }

    fn join(&mut self, mut other: Self) {
        let kept = (other.best.len() + other.all.len()) as u64;
        self.total += other.total.saturating_sub(kept);
        if self.limit == 0 {
            self.total += kept;
            self.all.append(&mut other.all);
        }
        other.best.into_values().for_each(|event| self.add(event));
    }
}
