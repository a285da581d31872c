//! Which block an address belongs to, what lies beside it, and which blocks were there before.

use std::collections::{BTreeMap, HashSet};

use heapledger_format::{Entry, FreedEntry, Site};
use heapledger_source::{Heap, Ledger, Mapping, Module, SourceError};

use crate::Sampling;
use crate::extents::Extents;
use crate::frees::FreesBefore;
use crate::notes::records_frees;

/// Most addresses asked for at a time.
pub const ADDRESSES_MAX: usize = 4096;

/// What there is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A live block holds it, so many bytes from its start.
    Inside(u64),
    /// It lies in a live block behind what was asked for: so many bytes past the last one asked for, counted from 0.
    Behind(u64),
    /// No live block holds it; a freed one did.
    Freed,
    /// No block that the ledger knows.
    Nothing,
}

/// An address, and what the ledger knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAddress {
    /// The address.
    pub address: u64,
    /// What is there.
    pub found: Found,
    /// The live block that holds it.
    pub block: Option<Entry>,
    /// The live block before it, or before the one that holds it.
    pub before: Option<Entry>,
    /// The live block behind it.
    pub after: Option<Entry>,
    /// Freed blocks that held it, the last one first.
    pub lives: Vec<FreedEntry>,
    /// How many more there are in the history.
    pub lives_left_out: u64,
    /// The heap that it belongs to: its block's, or else the ones whose range it lies in.
    pub heap: Option<Heap>,
    /// The module whose code or data it is.
    pub module: Option<Module>,
    /// What the system says of it, if the program runs.
    pub mapping: Option<Mapping>,
}

/// All addresses asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAddresses {
    /// In the order in which they were asked for.
    pub places: Vec<KnownAddress>,
    /// Frees that are counted and no longer in the history.
    pub frees_missing: u64,
    /// Whether the ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    /// Elements that were being written.
    pub in_flight: u64,
}

/// Live blocks near the addresses. Those that begin between two neighbouring addresses matter only if they are the
/// first or the last ones there, so memory is in proportion to the addresses.
struct Near {
    /// Addresses, sorted, each once.
    addresses: Vec<u64>,
    /// First and last of the blocks that begin above address `i - 1`, up to address `i`.
    gaps: Vec<[Option<Entry>; 2]>,
    /// The two last blocks that begin up to an address: the one before the block that holds it is wanted as well.
    second: Vec<Option<Entry>>,
}

impl Near {
    fn add(&mut self, entry: &Entry) {
        let gap = self.addresses.partition_point(|address| *address < entry.address);
        let Some([first, last]) = self.gaps.get_mut(gap) else { return };
        let key = |entry: &Entry| (entry.address, entry.number);
        if first.as_ref().is_none_or(|first| key(entry) < key(first)) {
            *first = Some(*entry);
        }
        let place = &mut self.second[gap];
        match last {
            Some(known) if key(entry) < key(known) => {
                if place.as_ref().is_none_or(|second| key(entry) > key(second)) {
                    *place = Some(*entry);
                }
            }
            _ => *place = last.replace(*entry),
        }
    }

    /// The last block that begins at or before address `index`, and the one before that.
    fn up_to(&self, index: usize) -> (Option<Entry>, Option<Entry>) {
        let mut found: [Option<Entry>; 2] = [None, None];
        for gap in (0..=index).rev() {
            for entry in [self.gaps[gap][1], self.second[gap]].into_iter().flatten() {
                if found[0].is_none() {
                    found[0] = Some(entry);
                } else if found[1].is_none() {
                    found[1] = Some(entry);
                }
            }
            if found[1].is_some() {
                break;
            }
        }
        (found[0], found[1])
    }

    /// The first block that begins behind address `index`.
    fn behind(&self, index: usize) -> Option<Entry> {
        self.gaps.get(index + 1..).unwrap_or(&[]).iter().find_map(|[first, _]| *first)
    }
}

impl KnownAddress {
    /// How many bytes lie between the end of the block before and the address (or the block that holds it).
    pub fn distance_before(&self) -> Option<u64> {
        let from = self.block.map_or(self.address, |block| block.address);
        self.before.map(|before| from.saturating_sub(end(&before)))
    }

    /// How many bytes lie between the address (or the end of the block that holds it) and the block behind.
    pub fn distance_after(&self) -> Option<u64> {
        let from = self.block.as_ref().map_or(self.address, end);
        self.after.map(|after| after.address.saturating_sub(from))
    }
}

/// One past the last byte that belongs to a block. A block of no bytes has one, so that it can be found.
fn end(entry: &Entry) -> u64 {
    let bytes = entry.actual.unwrap_or(0).max(entry.size.unwrap_or(0)).max(1);
    entry.address.saturating_add(bytes)
}

impl KnownAddresses {
    /// Looks for `addresses` in one pass over the records and one over the history; at most `lives` earlier lives of
    /// each are kept, 0 for all.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        addresses: &[u64],
        lives: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<KnownAddresses, SourceError> {
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let gaps = sorted.len() + 1;
        let mut near = Near { addresses: sorted, gaps: vec![[None; 2]; gaps], second: vec![None; gaps] };
        let mut extents = Extents::new();
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            for entry in chunk {
                near.add(entry);
                extents.add(entry);
            }
        }
        let mut earlier = EarlierLives { kept: BTreeMap::new(), most: if lives == 0 { usize::MAX } else { lives } };
        let neighbours = near.gaps.iter().flatten().chain(&near.second).flatten();
        let candidates: HashSet<u64> = neighbours.map(|entry| entry.number).collect();
        let mut gone = HashSet::new();
        let sampling = Sampling::of(ledger);
        let mut entered = 0u64;
        let before = FreesBefore::of(ledger)?;
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            for entry in chunk {
                entered = entered.saturating_add(before.of_these(entry, sampling.weight(&entry.block)));
                // Freed between the reading of the records and that of the history.
                if candidates.contains(&entry.block.number) {
                    gone.insert(entry.block.number);
                }
                let first = near.addresses.partition_point(|address| *address < entry.block.address);
                let last = near.addresses.partition_point(|address| *address < end(&entry.block));
                for address in near.addresses.get(first..last).unwrap_or(&[]) {
                    earlier.add(*address, entry);
                }
            }
        }
        let frees_missing = before.missing(entered);
        let heaps: Vec<Heap> = ledger.heaps()?.into_iter().map(|heap| extents.widen(heap)).collect();
        let modules = ledger.modules()?;
        let mut places = Vec::new();
        for address in addresses {
            let index = near.addresses.partition_point(|known| known < address);
            let (last, second) = near.up_to(index);
            let mut up_to = [last, second].into_iter().flatten().filter(|entry| !gone.contains(&entry.number));
            let (last, second) = (up_to.next(), up_to.next());
            let block = last.filter(|entry| *address < end(entry));
            let kept = earlier.kept.get(address);
            let lives: Vec<FreedEntry> =
                kept.map(|(lives, _)| lives.values().rev().copied().collect()).unwrap_or_default();
            let found = match &block {
                Some(entry) => match entry.size {
                    Some(size) if *address - entry.address >= size => Found::Behind(*address - entry.address - size),
                    _ => Found::Inside(*address - entry.address),
                },
                None if !lives.is_empty() => Found::Freed,
                None => Found::Nothing,
            };
            let in_row = block.and_then(|entry| entry.heap).map(u32::from);
            let heap = heaps.iter().find(|heap| match in_row {
                Some(row) => heap.row == row,
                None => heap.low <= *address && *address < heap.high,
            });
            // The one that was loaded last: modules that went may have been there before it.
            let module = modules.iter().rev().find(|module| module.low <= *address && *address < module.high);
            places.push(KnownAddress {
                address: *address,
                found,
                before: if block.is_some() { second } else { last },
                after: near.behind(index).filter(|entry| !gone.contains(&entry.number)),
                block,
                lives,
                lives_left_out: kept.map_or(0, |(_, left_out)| *left_out),
                heap: heap.cloned(),
                module: module.filter(|_| block.is_none()).cloned(),
                mapping: ledger.mapping_at(*address),
            });
        }
        let in_flight = records.in_flight() + freed.in_flight();
        Ok(KnownAddresses { places, frees_missing, frees_recorded: records_frees(ledger), in_flight })
    }

    /// Whether each address lies in a live block.
    pub fn all_in_blocks(&self) -> bool {
        self.places.iter().all(|place| place.block.is_some())
    }

    /// The call sites of all that is in the report.
    pub fn sites(&self) -> Vec<Site> {
        let lives =
            |place: &KnownAddress| place.lives.iter().flat_map(|life| [life.block.site, life.site]).collect::<Vec<_>>();
        self.places
            .iter()
            .flat_map(|place| place.block.map(|block| block.site).into_iter().chain(lives(place)))
            .collect()
    }
}

/// Earlier lives by address, each under the number of its free, and how many were left out.
struct EarlierLives {
    kept: BTreeMap<u64, (BTreeMap<u64, FreedEntry>, u64)>,
    most: usize,
}

impl EarlierLives {
    fn add(&mut self, address: u64, entry: &FreedEntry) {
        let (lives, left_out) = self.kept.entry(address).or_default();
        lives.insert(entry.number, *entry);
        if lives.len() > self.most {
            lives.pop_first();
            *left_out += 1;
        }
    }
}
