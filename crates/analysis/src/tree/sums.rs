//! What call sites hold, added up in one pass over records and history.

use std::collections::{HashMap, HashSet};

use heapledger_source::format::{Entry, SectionKind, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use super::Amounts;
use crate::FreesHeld;
use crate::notes::records_frees;
use crate::query::{Evaluator, Subject};
use crate::{Sampled, Sampling};

/// Call sites that a running program may add while it is read.
const SITES_MORE: usize = 1 << 20;

/// What one call site holds, of one thread if threads are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSum {
    /// The row of the thread that allocated; `None` if it has none, or threads are not told apart.
    pub thread: Option<u32>,
    /// The site: a whole stack. 0: no stack.
    pub site: u32,
    /// What it holds.
    pub amounts: Amounts,
}

/// The blocks of a ledger by call site.
#[derive(Clone, Debug, Default)]
pub struct SiteSums {
    /// The sites that hold anything.
    pub sites: Vec<SiteSum>,
    /// Whether they are told apart by thread.
    pub by_thread: bool,
    /// All of them together.
    pub total: Amounts,
    /// Frees that are counted and no longer in the history: their blocks are in no figure. An estimate if the ledger
    /// is sampled. While a program runs, blocks that are freed during the reading are among them.
    pub frees_missing: u64,
    /// Whether the ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    /// Frees in all. An estimate if the ledger is sampled.
    pub frees: u64,
    /// Which blocks were added up, in the language of filters; `None` if all were.
    pub filter: Option<String>,
    /// Live blocks whose size is not known; they count 0 bytes.
    pub sizes_unknown: u64,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Elements that were being written.
    pub in_flight: u64,
}

/// The sums as they grow. Without threads a site's number is its place: 32 bytes for each site.
struct Sums {
    by_thread: bool,
    limit: usize,
    places: Vec<Amounts>,
    threads: HashMap<(Option<u32>, u32), Amounts>,
}

impl Sums {
    fn at(&mut self, block: &Entry) -> &mut Amounts {
        // A forged record may name any site; it is one without a stack.
        let site = if (block.site as usize) < self.limit { block.site } else { 0 };
        if self.by_thread {
            return self.threads.entry((block.thread, site)).or_default();
        }
        let place = site as usize;
        if place >= self.places.len() {
            self.places.resize((place + 1).max(self.places.len() * 2), Amounts::default());
        }
        &mut self.places[place]
    }

    fn finish(self) -> Vec<SiteSum> {
        let places = (0u32..=u32::MAX).zip(self.places);
        let places = places.map(|(site, amounts)| SiteSum { thread: None, site, amounts });
        let threads = self.threads.into_iter();
        let threads = threads.map(|((thread, site), amounts)| SiteSum { thread, site, amounts });
        let mut sites: Vec<SiteSum> = places.chain(threads).filter(|sum| !sum.amounts.is_zero()).collect();
        sites.sort_unstable_by_key(|sum| (sum.thread.map_or(u64::MAX, u64::from), sum.site));
        sites
    }
}

impl SiteSums {
    /// Of which frees the figures of freed blocks are.
    pub fn frees_held(&self) -> FreesHeld {
        FreesHeld {
            all: self.frees,
            missing: self.frees_missing,
            recorded: self.frees_recorded,
            estimated: self.sampled.is_some(),
        }
    }

    /// Adds up the blocks of `ledger`, or those that `filter` means. Of a freed block it decides on the allocation.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        by_thread: bool,
        mut filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<SiteSums, SourceError> {
        let running = ledger.is_running();
        let sampling = Sampling::of(ledger);
        let limit = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        let limit = if running { limit.saturating_add(SITES_MORE) } else { limit }.max(1);
        let mut sums = Sums { by_thread, limit, places: Vec::new(), threads: HashMap::new() };
        filter = filter.filter(|filter| !filter.is_all());
        if let Some(filter) = &mut filter {
            filter.prepare_events(progress)?;
        }
        let text = filter.as_ref().map(|filter| filter.text().to_owned());
        let mut keep = |subject: &Subject<'_>| match &mut filter {
            Some(filter) => filter.subject(subject),
            None => Ok(true),
        };
        let mut found = SiteSums { by_thread, filter: text, ..SiteSums::default() };
        // The history first: what is in it no longer lives, so nothing counts twice in a running program.
        let mut ended = HashSet::new();
        let (mut samples, mut freed_blocks) = (0u64, 0u64);
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            for entry in chunk {
                let weight = sampling.weight(&entry.block);
                freed_blocks = freed_blocks.saturating_add(weight);
                if running {
                    ended.insert(entry.block.number);
                }
                if keep(&Subject::allocation(entry))? {
                    let bytes = entry.block.size.unwrap_or(0).saturating_mul(weight);
                    let part = Amounts { freed_bytes: bytes, freed_blocks: weight, ..Amounts::default() };
                    *sums.at(&entry.block) += part;
                    found.total += part;
                    samples += 1;
                }
            }
        }
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            for block in chunk {
                if running && ended.contains(&block.number) || !keep(&Subject::live(block))? {
                    continue;
                }
                let weight = sampling.weight(block);
                let bytes = block.size.unwrap_or(0).saturating_mul(weight);
                let part = Amounts { live_bytes: bytes, live_blocks: weight, ..Amounts::default() };
                *sums.at(block) += part;
                found.total += part;
                found.sizes_unknown += u64::from(block.size.is_none());
                samples += 1;
            }
        }
        found.in_flight = records.in_flight().saturating_add(freed.in_flight());
        found.frees = ledger.tallies()?.get(TallyCounter::Frees);
        found.frees_missing = found.frees.saturating_sub(freed_blocks);
        found.frees_recorded = records_frees(ledger);
        found.sampled = sampling.from(samples);
        found.sites = sums.finish();
        Ok(found)
    }
}
