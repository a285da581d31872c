//! Whose blocks a forked process freed that it had not allocated itself.
//!
//! A forked process has copies of its parent's blocks, and its ledger has none of them: it says where the fork lies in the numbers of each
//! thread of its parent, and what it freed of unknown addresses. The block is then that of its parent, or of a forked parent's parent,
//! with this address which had been allocated before the fork and not been freed before it. What the parent did with it afterwards is
//! another matter: it has a copy of its own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::{Ledger, SourceError};

/// Where a fork lies in the numbers of each thread of the process that was forked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkPlace {
    /// By row of the parent's threads: its next number at the fork; `None`: all of its numbers lie before. What threads without an element
    /// did, they did later.
    pub rows: Vec<Option<u64>>,
}

impl ForkPlace {
    /// Whether what this thread did under this number was done before the fork; `None` if the ledger does not say which thread it was and
    /// that matters.
    pub fn is_before(&self, thread: Option<ThreadRow>, number: u64) -> Option<bool> {
        let of_row = |row: Option<&Option<u64>>| match row {
            Some(Some(next)) => number < *next,
            Some(None) => true,
            None => false,
        };
        if let Some(ThreadRow(row)) = thread {
            return Some(of_row(usize::try_from(row).ok().and_then(|row| self.rows.get(row))));
        }
        // Whichever it was, if all of them say the same.
        let mut all = self.rows.iter().map(|row| of_row(Some(row)));
        let first = all.next().unwrap_or(false);
        all.all(|other| other == first).then_some(first)
    }
}

/// A free of an address that the process had not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedOfParent {
    /// The address.
    pub address: u64,
    /// Its number among the events of the process that freed.
    pub number: u64,
    /// The function.
    pub by: Kind,
    /// The call's stack, in the ledger of the process that freed.
    pub site: Site,
    /// The thread of that process.
    pub thread: Option<ThreadRow>,
    /// When, on that ledger's clock.
    pub time: Option<Ticks>,
}

/// Blocks of an ancestor's ledger, whoever asks for them.
#[derive(Debug, Default)]
pub(super) struct KnownBlocks {
    /// By address.
    blocks: Vec<(Entry, Option<FreedEntry>)>,
    is_incomplete: bool,
}

impl KnownBlocks {
    /// Reads from `ledger` the blocks at or around one of `wanted` addresses. Memory is in proportion to these.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub(super) fn of(ledger: &Ledger, wanted: &BTreeSet<u64>) -> Result<KnownBlocks, SourceError> {
        let mut blocks: Vec<(Entry, Option<FreedEntry>)> = Vec::new();
        let mut frees = 0u64;
        // The history first: what is in it no longer lives, so nothing is there twice in a running program.
        let mut ended = HashSet::new();
        let mut history = ledger.freed();
        while let Some(chunk) = history.next_chunk()? {
            frees += chunk.len() as u64;
            for freed in chunk.iter().filter(|freed| is_around(&freed.block, wanted)) {
                ended.insert(freed.block.number);
                blocks.push((freed.block, Some(*freed)));
            }
        }
        let mut records = ledger.records();
        while let Some(chunk) = records.next_chunk()? {
            let there = |block: &&Entry| is_around(block, wanted) && !ended.contains(&block.number);
            blocks.extend(chunk.iter().filter(there).map(|block| (*block, None)));
        }
        let counted = ledger.tallies()?.get(heapledger_format::TallyCounter::Frees);
        let is_incomplete = counted > frees || ledger.sample_interval() != 0;
        Ok(KnownBlocks::new(blocks, is_incomplete))
    }

    fn new(mut blocks: Vec<(Entry, Option<FreedEntry>)>, is_incomplete: bool) -> KnownBlocks {
        blocks.sort_by_key(|(block, _)| block.address);
        KnownBlocks { blocks, is_incomplete }
    }
}

/// What an ancestor's ledger says of some addresses.
#[derive(Clone, Debug, Default)]
pub struct AncestorBlocks {
    place: ForkPlace,
    known: Arc<KnownBlocks>,
    /// By address.
    inherited: Arc<[FreedOfParent]>,
}

impl AncestorBlocks {
    /// Of an ancestor's ledger: where in its numbers the fork lies from which the next process came; its blocks, those that live, and those
    /// that the history holds; what it freed itself of its ancestors' blocks; and whether there may be others, because the history no
    /// longer holds all frees, or not all blocks were entered.
    pub fn new(
        place: ForkPlace,
        blocks: Vec<(Entry, Option<FreedEntry>)>,
        mut inherited: Vec<FreedOfParent>,
        is_incomplete: bool,
    ) -> AncestorBlocks {
        inherited.sort_by_key(|free| free.address);
        AncestorBlocks { place, known: Arc::new(KnownBlocks::new(blocks, is_incomplete)), inherited: inherited.into() }
    }

    /// The same of what was read before; `inherited` is in the order of its addresses.
    pub(super) fn sharing(
        place: ForkPlace,
        known: &Arc<KnownBlocks>,
        inherited: &Arc<[FreedOfParent]>,
    ) -> AncestorBlocks {
        AncestorBlocks { place, known: Arc::clone(known), inherited: Arc::clone(inherited) }
    }

    /// Reads from `ledger` the blocks at or around one of `wanted` addresses. Memory is in proportion to these.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn of(
        ledger: &Ledger,
        place: ForkPlace,
        mut inherited: Vec<FreedOfParent>,
        wanted: &BTreeSet<u64>,
    ) -> Result<AncestorBlocks, SourceError> {
        inherited.sort_by_key(|free| free.address);
        let known = Arc::new(KnownBlocks::of(ledger, wanted)?);
        Ok(AncestorBlocks { place, known, inherited: inherited.into() })
    }

    /// The block of this address that was there at the fork.
    fn at_fork(&self, address: u64) -> AtFork<'_> {
        let mut found = AtFork::None;
        for (block, end) in of_address(&self.known.blocks, address, |(block, _)| block.address) {
            let begun = self.place.is_before(block.thread, block.number);
            let ended = end.map_or(Some(false), |end| self.place.is_before(end.thread, end.number));
            match (begun, ended) {
                (Some(true), Some(false)) => return AtFork::Block(block, end.as_ref()),
                (Some(false), _) | (_, Some(true)) => {}
                _ => found = AtFork::Perhaps,
            }
        }
        found
    }

    /// The block that this one had at or around an address when it forked, or last before that.
    pub(super) fn around(&self, address: u64) -> Around<'_> {
        let mut ended: Option<(&Entry, &FreedEntry)> = None;
        let mut found = Around::None;
        for (block, end) in self.known.blocks.iter().filter(|(block, _)| is_in(block, address)) {
            let begun = self.place.is_before(block.thread, block.number);
            let gone = end.as_ref().map_or(Some(false), |end| self.place.is_before(end.thread, end.number));
            match (begun, gone, end) {
                (Some(true), Some(false), end) => return Around::There(block, end.as_ref()),
                (Some(true), Some(true), Some(end)) => {
                    let is_later =
                        |(_, known): (&Entry, &FreedEntry)| (known.time, known.number) < (end.time, end.number);
                    if ended.is_none_or(is_later) {
                        ended = Some((block, end));
                    }
                }
                (Some(false), ..) => {}
                _ => found = Around::Perhaps,
            }
        }
        match (ended, &found) {
            (Some((block, end)), Around::None) => Around::Ended(block, end),
            _ => found,
        }
    }

    /// Whether its ledger may have had blocks that it no longer tells of, or never entered.
    pub(super) fn is_incomplete(&self) -> bool {
        self.known.is_incomplete
    }

    /// Whether it had itself freed a block of its ancestors' with this address before the fork; `None` if nobody knows.
    fn had_freed(&self, address: u64) -> Option<bool> {
        match self.freed_before_fork(address) {
            Ok(free) => Some(free.is_some()),
            Err(NotKnown) => None,
        }
    }

    /// How it had itself freed a block of its ancestors' with this address before the fork.
    pub(super) fn freed_before_fork(&self, address: u64) -> Result<Option<&FreedOfParent>, NotKnown> {
        let mut known = Ok(None);
        for free in of_address(&self.inherited, address, |free| free.address) {
            match self.place.is_before(free.thread, free.number) {
                Some(true) => return Ok(Some(free)),
                Some(false) => {}
                None => known = Err(NotKnown),
            }
        }
        known
    }
}

/// Those of an address, of some that are sorted by it.
fn of_address<T>(all: &[T], address: u64, get: fn(&T) -> u64) -> &[T] {
    let first = all.partition_point(|one| get(one) < address);
    let behind = all.partition_point(|one| get(one) <= address);
    all.get(first..behind).unwrap_or(&[])
}

/// Whether an address is that of a block, or lies in it.
pub(super) fn is_in(block: &Entry, address: u64) -> bool {
    address.checked_sub(block.address).is_some_and(|offset| offset < block.size.unwrap_or(0).max(1))
}

/// Whether one of these addresses is that of a block, or lies in it.
pub(super) fn is_around(block: &Entry, wanted: &BTreeSet<u64>) -> bool {
    let end = block.address.saturating_add(block.size.unwrap_or(0).max(1));
    wanted.range(block.address..end.max(block.address)).next().is_some()
}

/// The ledgers do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotKnown;

/// What an ancestor had at or around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around<'a> {
    /// This block, when it forked; and how it freed its own copy, if it did, later.
    There(&'a Entry, Option<&'a FreedEntry>),
    /// None then; this one last, which it had freed before the fork.
    Ended(&'a Entry, &'a FreedEntry),
    /// One of which it is not known whether it was there.
    Perhaps,
    /// None that its ledger tells of.
    None,
}

enum AtFork<'a> {
    Block(&'a Entry, Option<&'a FreedEntry>),
    Perhaps,
    None,
}

/// A block of an ancestor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOfAncestor {
    /// Whose: 0 is the parent, 1 its parent.
    pub ancestor: usize,
    /// The block, as that one's ledger has it.
    pub block: Entry,
    /// How that one freed its own copy, if it did, after the fork.
    pub end: Option<FreedEntry>,
}

/// Whose block it was that a forked process freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreedBlock {
    /// An ancestor's.
    Of(Box<BlockOfAncestor>),
    /// The same process had freed it before: freed twice, or an address that it got without our seeing it.
    Again {
        /// Which free that was.
        first: usize,
    },
    /// The ledgers do not tell: what an ancestor freed is no longer all in its history, or threads were not recorded.
    Unknown,
    /// No ancestor had such a block at the fork: it came from elsewhere, or had been freed before.
    Nobodys,
}

/// Whose blocks these were, in the order of `frees`. `ancestors` are the parent, its parent if it was forked itself, and so on; what their
/// ledgers say of these addresses.
pub fn freed_blocks(frees: &[FreedOfParent], ancestors: &[AncestorBlocks]) -> Vec<FreedBlock> {
    let mut order: Vec<usize> = (0..frees.len()).collect();
    order.sort_by_key(|index| frees.get(*index).map(|free| (free.time, free.number)));
    // What was found of each address, and by which free.
    let mut before: HashMap<u64, (usize, FreedBlock)> = HashMap::new();
    let mut found = vec![FreedBlock::Unknown; frees.len()];
    for index in order {
        let (Some(free), Some(place)) = (frees.get(index), found.get_mut(index)) else { continue };
        *place = match before.get(&free.address) {
            Some((first, FreedBlock::Of(_))) => FreedBlock::Again { first: *first },
            // Where it was nobody's, the next free of the address is no second one.
            Some((_, known)) => known.clone(),
            None => {
                let known = of_ancestors(free.address, ancestors);
                before.insert(free.address, (index, known.clone()));
                known
            }
        };
    }
    found
}

fn of_ancestors(address: u64, ancestors: &[AncestorBlocks]) -> FreedBlock {
    for (ancestor, blocks) in ancestors.iter().enumerate() {
        match blocks.at_fork(address) {
            AtFork::Block(block, end) => {
                let (block, end) = (*block, end.copied());
                return FreedBlock::Of(Box::new(BlockOfAncestor { ancestor, block, end }));
            }
            AtFork::Perhaps => return FreedBlock::Unknown,
            AtFork::None => {}
        }
        match blocks.had_freed(address) {
            // Of its own ancestors' blocks this one was gone before it forked.
            Some(true) => return FreedBlock::Nobodys,
            None => return FreedBlock::Unknown,
            // It may have had one of its own here that is in no record.
            Some(false) if blocks.is_incomplete() => return FreedBlock::Unknown,
            Some(false) => {}
        }
    }
    FreedBlock::Nobodys
}

#[cfg(test)]
mod tests {
    use heapledger_testing::{Builder, Scratch, freed_at};

    use super::*;

    const MAIN: Option<ThreadRow> = Some(ThreadRow(0));
    const OTHER: Option<ThreadRow> = Some(ThreadRow(1));

    fn block(address: u64, number: u64, thread: Option<ThreadRow>) -> Entry {
        Entry { address, number, thread, size: Some(8), kind: Kind::MALLOC, ..Entry::NONE }
    }

    fn end(block: Entry, number: u64, thread: Option<ThreadRow>) -> Option<FreedEntry> {
        Some(FreedEntry { thread, ..freed_at(block, number) })
    }

    fn free(address: u64, number: u64) -> FreedOfParent {
        FreedOfParent { address, number, by: Kind::FREE, site: Site(3), thread: MAIN, time: Some(Ticks(number)) }
    }

    /// The main thread forked before its number 10; the other one had come to 20.
    fn place() -> ForkPlace {
        ForkPlace { rows: vec![Some(10), Some(20), None] }
    }

    fn parent(blocks: Vec<(Entry, Option<FreedEntry>)>) -> AncestorBlocks {
        AncestorBlocks::new(place(), blocks, Vec::new(), false)
    }

    fn of(ancestor: usize, block: Entry, end: Option<FreedEntry>) -> FreedBlock {
        FreedBlock::Of(Box::new(BlockOfAncestor { ancestor, block, end }))
    }

    fn joined(address: u64, ancestors: &[AncestorBlocks]) -> FreedBlock {
        freed_blocks(&[free(address, 0)], ancestors).remove(0)
    }

    #[test]
    fn the_block_is_the_one_that_was_there_at_the_fork() {
        let (first, second, third) = (block(0x10, 3, MAIN), block(0x10, 15, OTHER), block(0x10, 12, MAIN));
        let blocks = vec![
            // Freed before the fork, and by whom decides: 9 of the main thread lies before its 10.
            (first, end(first, 9, MAIN)),
            // Allocated by the other thread before the fork, freed after it.
            (second, end(second, 11, MAIN)),
            // The address was used again in the parent.
            (third, None),
        ];
        let found = joined(0x10, &[parent(blocks)]);
        assert_eq!(found, of(0, second, end(second, 11, MAIN)));
        for (made, freed, thread, is_there) in [
            (3, Some(9), MAIN, false),
            (3, Some(10), MAIN, true),
            (3, Some(19), OTHER, false),
            (3, None, MAIN, true),
            (10, None, MAIN, false),
        ] {
            let one = block(0x20, made, MAIN);
            let found = joined(0x20, &[parent(vec![(one, freed.and_then(|number| end(one, number, thread)))])]);
            assert_eq!(matches!(found, FreedBlock::Of(_)), is_there, "{made} {freed:?} {found:?}");
        }
        let ended_thread = block(0x30, u64::MAX, Some(ThreadRow(2)));
        assert!(matches!(joined(0x30, &[parent(vec![(ended_thread, None)])]), FreedBlock::Of(_)));
        let later_thread = block(0x40, 0, Some(ThreadRow(3)));
        assert_eq!(joined(0x40, &[parent(vec![(later_thread, None)])]), FreedBlock::Nobodys);
    }

    #[test]
    fn what_nobody_knows_is_not_guessed() {
        assert_eq!(joined(0x10, &[parent(Vec::new())]), FreedBlock::Nobodys);
        let forgetful = AncestorBlocks::new(place(), Vec::new(), Vec::new(), true);
        assert_eq!(joined(0x10, &[forgetful]), FreedBlock::Unknown);
        // Of no known thread: 15 lies before the fork for one, and after it for the other.
        assert_eq!(joined(0x10, &[parent(vec![(block(0x10, 15, None), None)])]), FreedBlock::Unknown);
        let one_thread =
            AncestorBlocks { place: ForkPlace { rows: vec![Some(10)] }, ..parent(vec![(block(0x10, 5, None), None)]) };
        assert!(matches!(joined(0x10, &[one_thread]), FreedBlock::Of(_)));
        assert_eq!(joined(0x10, &[]), FreedBlock::Nobodys);
    }

    #[test]
    fn grandchildren_have_blocks_of_their_grandparents() {
        let own = block(0x10, 3, MAIN);
        let grandparent = || parent(vec![(own, None)]);
        let with = |inherited: Vec<FreedOfParent>| AncestorBlocks { inherited: inherited.into(), ..parent(Vec::new()) };
        assert_eq!(joined(0x10, &[with(Vec::new()), grandparent()]), of(1, own, None));
        // Their parent had freed its copy: before it forked, or after.
        assert_eq!(joined(0x10, &[with(vec![free(0x10, 9)]), grandparent()]), FreedBlock::Nobodys);
        assert!(matches!(joined(0x10, &[with(vec![free(0x10, 10)]), grandparent()]), FreedBlock::Of(_)));
        // The parent's own block at this address hides the grandparent's.
        let hidden =
            AncestorBlocks { inherited: vec![free(0x10, 2)].into(), ..parent(vec![(block(0x10, 5, MAIN), None)]) };
        assert_eq!(joined(0x10, &[hidden, grandparent()]), of(0, block(0x10, 5, MAIN), None));
    }

    #[test]
    fn what_is_freed_twice_is_told_from_what_is_nobodys() {
        let ancestors = [parent(vec![(block(0x10, 3, MAIN), None)])];
        // Not in the order of time.
        let found = freed_blocks(&[free(0x10, 9), free(0x10, 4), free(0x20, 5), free(0x20, 6)], &ancestors);
        assert_eq!(found[0], FreedBlock::Again { first: 1 });
        assert!(matches!(found[1], FreedBlock::Of(_)));
        assert_eq!(found[2..], [FreedBlock::Nobodys, FreedBlock::Nobodys]);
    }

    #[test]
    fn only_blocks_at_the_wanted_addresses_are_kept() {
        let scratch = Scratch::new("inherited");
        let mut builder = Builder::new();
        for number in 0..50u64 {
            builder.entry(block(0x1000 + number * 16, number, MAIN));
        }
        let gone = block(0x1000, 60, MAIN);
        builder.freed(freed_at(gone, 61));
        let path = scratch.join("parent.hl");
        builder.write(&path).unwrap();
        let ledger = Ledger::open(&path).unwrap();
        let wanted = BTreeSet::from([0x1000, 0x1010, 0x9999]);
        let read = AncestorBlocks::of(&ledger, place(), Vec::new(), &wanted).unwrap();
        let mut numbers: Vec<u64> = read.known.blocks.iter().map(|(block, _)| block.number).collect();
        numbers.sort_unstable();
        assert_eq!((numbers, read.is_incomplete()), (vec![0, 1, 60], false));
        assert!(matches!(joined(0x1010, &[read]), FreedBlock::Of(_)));
    }
}
