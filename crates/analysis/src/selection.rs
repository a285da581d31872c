//! Live blocks, sorted and limited.

use std::collections::BinaryHeap;

use heapledger_source::format::Entry;
use heapledger_source::{Ledger, SourceError};

use crate::sampling::{Sampled, Sampling, Spread, Sum};

/// The order of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Lowest address first.
    #[default]
    Address,
    /// Largest first.
    Size,
    /// First allocated first.
    Number,
    /// Oldest first: by time, then number.
    Age,
}

/// Live blocks in order.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The blocks to show.
    pub blocks: Vec<Entry>,
    /// How many there are in all: records.
    pub total: u64,
    /// How many blocks these stand for.
    pub total_blocks: u64,
    /// Their bytes in all.
    pub total_bytes: u64,
    /// The standard error of `total_bytes`; 0 if exact.
    pub total_bytes_error: u64,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Records that were being written.
    pub in_flight: u64,
}

struct Ranked {
    key: (u64, u64),
    entry: Entry,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Ranked {}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl Selection {
    /// The first `limit` live blocks in the order of `sort`, or in the reverse; 0 is all of them, and then
    /// all of them are held in memory (72 bytes each).
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        sort: Sort,
        reverse: bool,
        limit: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Selection, SourceError> {
        let key = |entry: &Entry| {
            let key = match sort {
                Sort::Address => (entry.address, entry.number),
                Sort::Size => (!entry.size.unwrap_or(0), entry.number),
                Sort::Number => (entry.number, 0),
                Sort::Age => (entry.time.unwrap_or(0), entry.number),
            };
            if reverse { (!key.0, !key.1) } else { key }
        };
        let mut selection = Selection::default();
        let sampling = Sampling::of(ledger);
        let (mut sum, mut spread) = (Sum::default(), Spread::default());
        // The one that would be shown last is on top, so it goes first.
        let mut best: BinaryHeap<Ranked> = BinaryHeap::new();
        let mut all: Vec<Ranked> = Vec::new();
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            for entry in chunk {
                let weight = sampling.weight(entry);
                sum.add(entry, weight);
                spread.add(entry, weight);
                let ranked = Ranked { key: key(entry), entry: *entry };
                if limit == 0 {
                    all.push(ranked);
                } else if best.len() < limit {
                    best.push(ranked);
                } else if let Some(mut last) = best.peek_mut()
                    && ranked.key < last.key
                {
                    *last = ranked;
                }
            }
        }
        selection.in_flight = records.in_flight();
        (selection.total, selection.total_blocks, selection.total_bytes) = (sum.samples, sum.blocks, sum.bytes);
        selection.total_bytes_error = spread.bytes_error();
        selection.sampled = sampling.from(sum.samples);
        if limit > 0 {
            all = best.into_vec();
        }
        all.sort_unstable_by_key(|ranked| ranked.key);
        selection.blocks = all.into_iter().map(|ranked| ranked.entry).collect();
        Ok(selection)
    }

    /// Blocks that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.blocks.len() as u64)
    }
}
