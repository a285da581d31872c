//! Many blocks in an order, in as little memory as their records take.
//!
//! They are kept as packed records, 32 bytes each, in runs that are in order by themselves. Whoever goes through them
//! gets the runs merged: nothing is ever sorted as a whole, so that no second copy of it is needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use heapledger_format::record::{EXCESS_ESCAPE, RECORD_WORDS};
use heapledger_format::{Entry, LabelId, Site, ThreadRow};

use crate::query::SortKeys;

/// Blocks of a run: while they are collected they take 72 bytes each.
const RUN: usize = 1 << 15;
/// Blocks that are collected at least before those that are not among the first are thrown away.
const ROOM_MIN: usize = 1024;

/// In a packed record, the word with these two bits. They are free there.
const FLAGS: usize = 1;
/// The ledger says nothing of heaps.
const NO_HEAP: u64 = 1 << 54;
/// The ledger says nothing of times.
const NO_TIME: u64 = 1 << 55;

/// Blocks, packed.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockRun {
    packed: Vec<[u64; RECORD_WORDS]>,
    /// The labels beside, up to the last that is one.
    labels: Vec<LabelId>,
    /// Those that cannot be packed: huge ones, and those of ledgers with wider fields.
    whole: Vec<Entry>,
}

impl BlockRun {
    pub(crate) fn push(&mut self, entry: &Entry) {
        let packed = pack(entry);
        if entry.label != LabelId::NONE {
            self.labels.resize(self.packed.len(), LabelId::NONE);
            self.labels.push(entry.label);
        }
        if unpack(&packed) == Some(Entry { label: LabelId::NONE, ..*entry }) {
            self.packed.push(packed);
        } else {
            // No record has 0 for its first word.
            self.packed.push([0, self.whole.len() as u64, 0, 0]);
            self.whole.push(*entry);
        }
    }

    fn of(entries: &[Entry]) -> BlockRun {
        let mut run = BlockRun { packed: Vec::with_capacity(entries.len()), ..BlockRun::default() };
        entries.iter().for_each(|entry| run.push(entry));
        run
    }

    fn get(&self, index: usize) -> Option<Entry> {
        let packed = self.packed.get(index)?;
        let entry = unpack(packed).or_else(|| self.whole.get(packed[1] as usize).copied())?;
        Some(Entry { label: self.labels.get(index).copied().unwrap_or_default(), ..entry })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.packed.len()).filter_map(|index| self.get(index))
    }
}

/// What is not known is packed as recorders do it, or flagged. What does not fit comes out wrong.
fn pack(entry: &Entry) -> [u64; RECORD_WORDS] {
    if entry.number == u64::MAX {
        return [0; RECORD_WORDS];
    }
    let mut words = Entry { thread: entry.thread.or(Some(ThreadRow::OTHER)), ..*entry }.pack();
    words[FLAGS] |= if entry.heap.is_none() { NO_HEAP } else { 0 };
    words[FLAGS] |= if entry.time.is_none() { NO_TIME } else { 0 };
    words[3] |= if entry.actual.is_none() { EXCESS_ESCAPE << 44 } else { 0 };
    words
}

fn unpack(words: &[u64; RECORD_WORDS]) -> Option<Entry> {
    let mut entry = Entry::unpack(words)?;
    entry.thread = entry.thread.filter(|row| *row != ThreadRow::OTHER);
    entry.heap = entry.heap.filter(|_| words[FLAGS] & NO_HEAP == 0);
    entry.time = entry.time.filter(|_| words[FLAGS] & NO_TIME == 0);
    Some(entry)
}

/// Blocks in an order.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    keys: SortKeys,
    runs: Vec<BlockRun>,
    /// Those that the runs hold and that are among the first.
    count: usize,
}

impl Blocks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The blocks, one after the other.
    pub fn iter(&self) -> BlocksIter<'_> {
        let heads = self.runs.iter().filter_map(|run| {
            let entry = run.get(0)?;
            Some(BlockRunHead { entry, next: 1, run, keys: &self.keys })
        });
        BlocksIter { heads: heads.collect(), left: self.count }
    }

    /// Their call sites, in no particular order and each as often as it comes.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        let held: usize = self.runs.iter().map(|run| run.packed.len()).sum();
        let all = held == self.count;
        let any_order = self.runs.iter().filter(move |_| all).flat_map(BlockRun::iter);
        let in_order = (!all).then(|| self.iter()).into_iter().flatten();
        any_order.chain(in_order).map(|entry| entry.site)
    }
}

impl<'b> IntoIterator for &'b Blocks {
    type Item = Entry;
    type IntoIter = BlocksIter<'b>;

    fn into_iter(self) -> BlocksIter<'b> {
        self.iter()
    }
}

/// The next block of a run.
struct BlockRunHead<'b> {
    entry: Entry,
    run: &'b BlockRun,
    next: usize,
    keys: &'b SortKeys,
}

impl Ord for BlockRunHead<'_> {
    /// The heap has the greatest on top, and that is to be the one that comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.keys.compare(&other.entry, &self.entry)
    }
}

impl PartialOrd for BlockRunHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BlockRunHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for BlockRunHead<'_> {}

/// See [`Blocks::iter`].
pub struct BlocksIter<'b> {
    heads: BinaryHeap<BlockRunHead<'b>>,
    left: usize,
}

impl Iterator for BlocksIter<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.left = self.left.checked_sub(1)?;
        let mut head = self.heads.peek_mut()?;
        let entry = head.entry;
        match head.run.get(head.next) {
            Some(next) => {
                head.entry = next;
                head.next += 1;
            }
            None => drop(PeekMut::pop(head)),
        }
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for BlocksIter<'_> {}

/// The first of many blocks, by an order.
pub(crate) struct FirstBlocks<'k> {
    keys: &'k SortKeys,
    limit: usize,
    /// How many are collected before they are looked through.
    room: usize,
    collected: Vec<Entry>,
    /// No block behind this one is among the first.
    last: Option<Entry>,
    /// If the first are too many to be sorted at once.
    runs: Vec<BlockRun>,
}

impl<'k> FirstBlocks<'k> {
    /// None yet; `limit` 0 is all.
    pub(crate) fn new(keys: &'k SortKeys, limit: usize) -> FirstBlocks<'k> {
        let room = if limit == 0 { RUN } else { limit.saturating_mul(2).clamp(ROOM_MIN, RUN) };
        FirstBlocks { keys, limit, room, collected: Vec::new(), last: None, runs: Vec::new() }
    }

    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        if let Some(last) = &self.last
            && self.keys.compare(entry, last) != Ordering::Less
        {
            return;
        }
        self.collected.push(*entry);
        if self.collected.len() >= self.room {
            self.make_room();
        }
    }

    /// Adds what another worker has found.
    pub(crate) fn join(&mut self, other: FirstBlocks<'_>) {
        self.runs.extend(other.runs);
        other.collected.iter().for_each(|entry| self.add(entry));
    }

    fn make_room(&mut self) {
        if self.limit == 0 || self.limit > self.room / 2 {
            self.end_run();
        } else if self.collected.len() > self.limit {
            self.collected.select_nth_unstable_by(self.limit - 1, |one, other| self.keys.compare(one, other));
            self.collected.truncate(self.limit);
            self.last = self.collected.last().copied();
        }
    }

    fn end_run(&mut self) {
        self.collected.sort_unstable_by(|one, other| self.keys.compare(one, other));
        self.runs.push(BlockRun::of(&self.collected));
        self.collected.clear();
    }

    /// These, in order.
    pub(crate) fn sorted(mut self) -> Blocks {
        self.end_run();
        let held: usize = self.runs.iter().map(|run| run.packed.len()).sum();
        let count = if self.limit == 0 { held } else { held.min(self.limit) };
        Blocks { keys: self.keys.clone(), runs: self.runs, count }
    }
}

#[cfg(test)]
mod tests {
    use heapledger_format::record::{ADDRESS_MAX, NUMBER_MAX, SIZE_ESCAPE, TIME_MAX};
    use heapledger_format::{Kind, Ticks};

    use super::*;

    fn entries() -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut seed = 1u64;
        for number in 0..100_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bit = |at: u32| seed >> (63 - at) & 1 == 1;
            let rare = seed >> 50 & 255 == 7;
            let size = if rare { seed >> 8 } else { seed >> 40 & 0xffff };
            let size = Some(size).filter(|_| !(bit(0) && rare));
            entries.push(Entry {
                number: if rare && bit(1) { u64::MAX - number } else { number },
                address: if rare && bit(2) { seed } else { seed >> 16 },
                size,
                actual: size.filter(|_| bit(3)).map(|size| size.saturating_add(if rare { seed >> 32 } else { 8 })),
                kind: if rare { Kind(200) } else { Kind::MALLOC },
                site: Site(seed as u32),
                thread: bit(4).then_some(if rare { ThreadRow(70_000) } else { ThreadRow((seed >> 30 & 0xff) as u32) }),
                heap: bit(5).then_some(seed as u8),
                time: bit(6).then_some(if rare { Ticks(seed) } else { Ticks(seed >> 20) }),
                label: LabelId(if seed >> 47 & 7 == 3 { seed as u32 } else { 0 }),
                core: None,
                cycles: None,
            });
        }
        entries
    }

    #[test]
    fn nothing_is_lost_by_packing() {
        let plain = Entry {
            number: 5,
            address: 0x1000,
            size: Some(8),
            actual: Some(24),
            kind: Kind::CALLOC,
            site: Site(7),
            thread: Some(ThreadRow(1)),
            heap: Some(0),
            time: Some(Ticks(9)),
            ..Entry::NONE
        };
        let mut run = BlockRun::default();
        let packable = [
            plain,
            Entry { number: NUMBER_MAX, address: ADDRESS_MAX, time: Some(TIME_MAX), site: Site(u32::MAX), ..plain },
            Entry { actual: None, thread: None, heap: None, time: None, ..plain },
            Entry { size: None, actual: None, ..plain },
            Entry { heap: Some(255), thread: Some(ThreadRow(ThreadRow::OTHER.0 - 1)), ..plain },
        ];
        packable.iter().for_each(|entry| run.push(entry));
        assert!(run.whole.is_empty(), "{:?}", run.whole);
        let others = [
            Entry { number: NUMBER_MAX + 1, ..plain },
            Entry { number: u64::MAX, ..plain },
            Entry { address: ADDRESS_MAX + 1, ..plain },
            Entry { size: Some(SIZE_ESCAPE), actual: Some(SIZE_ESCAPE), ..plain },
            Entry { actual: Some(8 + EXCESS_ESCAPE), ..plain },
            Entry { actual: Some(7), ..plain },
            Entry { size: None, ..plain },
            Entry { kind: Kind(64), ..plain },
            Entry { thread: Some(ThreadRow::OTHER), ..plain },
            Entry { time: Some(Ticks(TIME_MAX.0 + 1)), ..plain },
        ];
        others.iter().for_each(|entry| run.push(entry));
        assert_eq!(run.whole, others);
        assert!(run.iter().eq(packable.iter().chain(&others).copied()));
        let entries = entries();
        let run = BlockRun::of(&entries);
        assert!(run.iter().eq(entries.iter().copied()));
        assert!((1..1000).contains(&run.whole.len()), "{}", run.whole.len());
        assert!(run.packed.capacity() == entries.len(), "32 bytes each");
    }

    #[test]
    fn several_workers_find_what_one_sort_gives() {
        let entries = entries();
        for text in ["addr", "size,number", "thread,kind,time:desc", "actual:asc,heap,site"] {
            let keys = SortKeys::parse(text).expect("an order");
            let mut sorted = entries.clone();
            sorted.sort_by(|one, other| keys.compare(one, other));
            for limit in [0, 1, 1000, RUN / 2, RUN / 2 + 1, RUN, 99_999, 100_000, 200_000] {
                let mut all = FirstBlocks::new(&keys, limit);
                for worker in 0..3 {
                    let mut first = FirstBlocks::new(&keys, limit);
                    entries.iter().skip(worker).step_by(3).for_each(|entry| first.add(entry));
                    all.join(first);
                }
                let blocks = all.sorted();
                let wanted = if limit == 0 { &sorted[..] } else { &sorted[..limit.min(sorted.len())] };
                assert_eq!((blocks.len(), blocks.iter().len()), (wanted.len(), wanted.len()));
                assert!(blocks.iter().eq(wanted.iter().copied()), "{text}, {limit}");
                let mut sites: [Vec<Site>; 2] =
                    [blocks.sites().collect(), wanted.iter().map(|entry| entry.site).collect()];
                sites.iter_mut().for_each(|sites| sites.sort_unstable());
                assert_eq!(sites[0], sites[1], "{text}, {limit}");
            }
        }
        let none = SortKeys::default();
        assert!(
            FirstBlocks::new(&none, 0).sorted().is_empty()
                && FirstBlocks::new(&none, 9).sorted().iter().next().is_none()
        );
    }
}
