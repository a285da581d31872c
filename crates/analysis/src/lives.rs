//! Every block that had an address, and where `realloc` took it from and to.

use std::collections::{BTreeMap, HashMap, HashSet};

use heapledger_format::{Entry, FreedEntry};
use heapledger_source::{Ledger, SourceError};

use crate::frees::FreesBefore;
use crate::notes::records_frees;
use crate::query::Subject;
use crate::{Sampled, Sampling, Wanted};

/// The life of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The block.
    pub block: Entry,
    /// How it ended; `None` if it lives.
    pub end: Option<FreedEntry>,
    /// Whether it contains the address in question, or is only where `realloc` took it from or to.
    pub holds: bool,
}

impl Life {
    /// Whether a `realloc` gave it: of nothing, or of a block whose end has the same number.
    pub fn is_moved(&self) -> bool {
        self.block.kind.reallocates()
    }

    /// Whether a `realloc` ended it.
    pub fn moves(&self) -> bool {
        self.end.is_some_and(|end| end.by.reallocates())
    }
}

/// Blocks that `realloc` made of each other, oldest first; most often one alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The lives of these blocks.
    pub lives: Vec<Life>,
}

/// All that is known of an address.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// By first number, or the last ones first.
    pub chains: Vec<Chain>,
    /// Blocks that contained the address, in all.
    pub total: u64,
    /// Of these, blocks that are not among the chains.
    pub left_out: u64,
    /// Frees that are no longer in the history: some may have been of blocks at this address.
    pub frees_missing: u64,
    /// Whether the ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Elements that were being written.
    pub in_flight: u64,
    /// Which blocks are meant, in the language of filters; `None` if all are.
    pub filter: Option<String>,
}

/// Whether a block contains an address. One of 0 bytes has the address that it was given.
fn contains(block: &Entry, address: u64) -> bool {
    let bytes = block.actual.or(block.size).unwrap_or(1).max(1);
    address >= block.address && address - block.address < bytes
}

/// Which blocks became which, by sequence numbers.
#[derive(Default)]
struct Links {
    next: HashMap<u64, u64>,
    previous: HashMap<u64, u64>,
}

impl Links {
    fn add(&mut self, entry: &FreedEntry) {
        if entry.by.reallocates() {
            self.next.insert(entry.block.number, entry.became());
            self.previous.insert(entry.became(), entry.block.number);
        }
    }

    /// The first blocks of the chains that these belong to, each once. Numbers only go up, except in forged ledgers.
    fn firsts(&self, numbers: &[u64]) -> Vec<u64> {
        let mut passed = HashSet::new();
        let mut firsts = Vec::new();
        for number in numbers {
            let mut at = *number;
            // Whoever was here before has found the first one.
            while passed.insert(at) {
                match self.previous.get(&at).filter(|previous| **previous < at) {
                    Some(previous) => at = *previous,
                    None => firsts.push(at),
                }
            }
        }
        firsts.sort_unstable();
        firsts
    }

    /// The block itself and all that it became.
    fn from(&self, first: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(first), |number| self.next.get(number).copied().filter(|next| next > number))
    }
}

impl Lives {
    /// The lives of `address` by ledgers of [one run](crate::in_order), oldest first: of the first `limit` blocks
    /// that contained it, or of the last ones; 0 is all of them. A filter must mean the allocation or the free of such
    /// a block. In memory there are these, and a few words for each `realloc` in the history.
    ///
    /// # Errors
    /// If a ledger can no longer be read.
    pub fn of(
        ledgers: &[&Ledger],
        address: u64,
        mut wanted: Wanted<'_, '_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Lives, SourceError> {
        let Some((last, _)) = ledgers.split_last() else { return Ok(Lives::default()) };
        wanted.prepare(ledgers, progress)?;
        let Wanted { reverse, limit, .. } = wanted;
        let sampling = Sampling::of(last);
        let (mut links, mut holding) = (Links::default(), Vec::new());
        let (mut known, mut entered) = (HashSet::new(), 0u64);
        let before = FreesBefore::of(last)?;
        let in_flight = walk(ledgers, progress, &mut |block, end| {
            if contains(block, address)
                && match end {
                    None => wanted.means(&Subject::live(block))?,
                    Some(end) => wanted.means(&Subject::allocation(end))? || wanted.means(&Subject::free(end))?,
                }
            {
                holding.push(block.number);
            }
            if let Some(end) = end
                && (ledgers.len() == 1 || known.insert(block.number))
            {
                entered = entered.saturating_add(before.of_these(end, sampling.weight(block)));
                links.add(end);
            }
            Ok(())
        })?;
        drop(known);
        holding.sort_unstable();
        holding.dedup();
        if reverse {
            holding.reverse();
        }
        let total = holding.len() as u64;
        if limit != 0 {
            holding.truncate(limit);
        }
        let firsts = links.firsts(&holding);
        let chained: HashSet<u64> = firsts.iter().flat_map(|first| links.from(*first)).collect();
        let mut found: BTreeMap<u64, Life> = BTreeMap::new();
        walk(ledgers, progress, &mut |block, end| {
            if chained.contains(&block.number) {
                let holds = contains(block, address);
                let life = found.entry(block.number).or_insert(Life { block: *block, end: None, holds });
                life.end = end.copied().or(life.end);
            }
            Ok(())
        })?;
        let mut chains: Vec<Chain> = firsts
            .into_iter()
            .map(|first| Chain { lives: links.from(first).filter_map(|number| found.get(&number).copied()).collect() })
            .filter(|chain| !chain.lives.is_empty())
            .collect();
        if reverse {
            chains.reverse();
        }
        let lives = chains.iter().flat_map(|chain| &chain.lives);
        let shown = lives.filter(|life| life.holds).count() as u64;
        Ok(Lives {
            chains,
            total: total.max(shown),
            left_out: total.saturating_sub(shown),
            frees_missing: before.missing(entered),
            frees_recorded: records_frees(last),
            sampled: sampling.from(total),
            in_flight,
            filter: wanted.text(),
        })
    }
}

/// Hears a block and its end.
type EachBlock<'e> = dyn FnMut(&Entry, Option<&FreedEntry>) -> Result<(), SourceError> + 'e;

/// Calls `each` with all blocks that live by the last ledger, and then with all that were freed by any, and their ends.
/// Returns how many elements were being written.
fn walk(ledgers: &[&Ledger], progress: &mut dyn FnMut(f32), each: &mut EachBlock<'_>) -> Result<u64, SourceError> {
    let mut in_flight = 0;
    if let Some(last) = ledgers.last() {
        let mut records = last.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            chunk.iter().try_for_each(|block| each(block, None))?;
        }
        in_flight += records.in_flight();
    }
    for ledger in ledgers {
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            chunk.iter().try_for_each(|entry| each(&entry.block, Some(entry)))?;
        }
        in_flight += freed.in_flight();
    }
    Ok(in_flight)
}
