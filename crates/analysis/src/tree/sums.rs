//! What call sites hold, added up in one pass over records and history.

use std::collections::{HashMap, HashSet};

use heapledger_format::{Entry, FreedEntry, GlobalCounter, SectionKind, Site, ThreadRow, Ticks};
use heapledger_source::{FreedSum, Ledger, LivedSum, PeakPlace, SourceError};

use super::Amounts;
use crate::FreesHeld;
use crate::fold::{self, Act, Fold, Folded};
use crate::frees::FreesBefore;
use crate::notes::records_frees;
use crate::peak::PeakBounds;
use crate::query::Evaluator;
use crate::{Sampled, Sampling};

/// Call sites that a running program may add while it is read.
const SITES_MORE: usize = 1 << 20;

/// What one call site holds, of one thread if threads are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSum {
    /// The row of the thread that allocated; `None` if it has none, or threads are not told apart.
    pub thread: Option<ThreadRow>,
    /// The site: a whole stack. 0: no stack.
    pub site: Site,
    /// What it holds.
    pub amounts: Amounts,
}

/// What is done with what several threads hold from one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// It is one sum.
    Together,
    /// Each thread has a sum of its own.
    Apart,
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
    /// Whether figures of freed blocks are of the whole run, as the recorder has summed them; then those of the peak and of temporary
    /// blocks are known, too.
    pub is_whole: bool,
    /// By how many bytes what is said of the peak may be off; `None` if nothing is.
    pub peak_error: Option<u64>,
    /// The peak as [`Peak`](crate::Peak) has it, where that is told beside sums: what blocks come to need not be what threads had told of.
    pub peak_highest: Option<u64>,
    /// What lived at the peak is what lives now, or at the end: as much as several threads had told of, or more.
    pub peak_is_end: bool,
    /// For how long freed blocks have lived, by call site; `None` if the recorder has not summed that.
    pub lifetimes: Option<HashMap<Site, LivedSum>>,
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

/// Sums by site as they grow.
struct Holdings {
    by_thread: bool,
    /// Sites from here on are not believed.
    limit: usize,
    /// By number of a site: which of the sums is its own, and one; 0: none. Most sites are frames that only lead to others.
    places: Vec<u32>,
    /// Without threads.
    sums: Vec<(Site, Amounts)>,
    threads: HashMap<(Option<ThreadRow>, Site), Amounts>,
    total: Amounts,
    samples: u64,
}

impl Holdings {
    fn new(by_thread: bool, limit: usize) -> Holdings {
        let (places, sums, threads) = (Vec::new(), Vec::new(), HashMap::new());
        Holdings { by_thread, limit, places, sums, threads, total: Amounts::default(), samples: 0 }
    }

    #[inline]
    fn add(&mut self, block: &Entry, part: Amounts) {
        self.samples += 1;
        self.put(block.thread, block.site, part);
    }

    /// Adds what the recorder has summed of freed blocks.
    fn add_freed(&mut self, site: Site, sum: &FreedSum) {
        let FreedSum { blocks, bytes, temporary_blocks, temporary_bytes, peak_blocks, peak_bytes, lived } = *sum;
        let part = Amounts {
            freed_bytes: bytes,
            freed_blocks: blocks,
            peak_bytes,
            peak_blocks,
            temporary_bytes,
            temporary_blocks,
            lived_events: lived.events,
            ..Amounts::default()
        };
        self.put(None, site, part);
    }

    #[inline]
    fn put(&mut self, thread: Option<ThreadRow>, site: Site, part: Amounts) {
        // A forged record may name any site; it is one without a stack.
        let site = if site.index() < self.limit { site } else { Site::NONE };
        self.total += part;
        if self.by_thread {
            *self.threads.entry((thread, site)).or_default() += part;
            return;
        }
        self.put_at(site, part);
    }

    #[inline]
    fn put_at(&mut self, site: Site, part: Amounts) {
        if site.index() >= self.places.len() {
            self.places.resize((site.index() + 1).max(self.places.len() * 2), 0);
        }
        let place = &mut self.places[site.index()];
        match place.checked_sub(1) {
            Some(known) => self.sums[known as usize].1 += part,
            None => {
                self.sums.push((site, part));
                // There are at most as many as sites.
                *place = self.sums.len() as u32;
            }
        }
    }

    fn join(&mut self, mut other: Holdings) {
        if other.sums.len() > self.sums.len() {
            std::mem::swap(&mut self.places, &mut other.places);
            std::mem::swap(&mut self.sums, &mut other.sums);
        }
        other.sums.into_iter().for_each(|(site, amounts)| self.put_at(site, amounts));
        for (key, amounts) in other.threads {
            *self.threads.entry(key).or_default() += amounts;
        }
        self.total += other.total;
        self.samples += other.samples;
    }

    fn finish(self) -> Vec<SiteSum> {
        let together = self.sums.into_iter().map(|(site, amounts)| SiteSum { thread: None, site, amounts });
        let threads = self.threads.into_iter();
        let threads = threads.map(|((thread, site), amounts)| SiteSum { thread, site, amounts });
        let mut sites: Vec<SiteSum> = together.chain(threads).filter(|sum| !sum.amounts.is_zero()).collect();
        sites.sort_unstable_by_key(|sum| (sum.thread.map_or(u64::MAX, |row| u64::from(row.0)), sum.site));
        sites
    }
}

/// Whether something was then, or before.
fn is_before(time: Option<Ticks>, at: Ticks) -> bool {
    time.is_some_and(|time| time <= at)
}

/// Blocks of the history, where they were allocated.
struct FreedHoldings {
    holdings: Holdings,
    before: FreesBefore,
    /// For how many blocks those stand that were there before they were read, whether a filter means them or not.
    met: u64,
    /// Their numbers, if the program may go on.
    ended: Option<HashSet<u64>>,
    /// They are in the recorder's sums.
    are_summed: bool,
    /// Only those that lived at this moment, as live ones.
    at: Option<Ticks>,
}

impl Fold<FreedEntry> for FreedHoldings {
    #[inline]
    fn meet(&mut self, entry: &FreedEntry, weight: u64) -> bool {
        self.met = self.met.saturating_add(self.before.of_these(entry, weight));
        if let Some(ended) = &mut self.ended {
            ended.insert(entry.block.number);
        }
        let lived = |at: Ticks| is_before(entry.block.time, at) && entry.time.is_some_and(|freed| freed > at);
        !self.are_summed && self.at.is_none_or(lived)
    }

    #[inline]
    fn add(&mut self, entry: &FreedEntry, _: Act, weight: u64) {
        let bytes = entry.block.size.unwrap_or(0).saturating_mul(weight);
        let part = match self.at {
            None => Amounts { freed_bytes: bytes, freed_blocks: weight, ..Amounts::default() },
            Some(_) => Amounts { live_bytes: bytes, live_blocks: weight, ..Amounts::default() },
        };
        self.holdings.add(&entry.block, part);
    }

    fn join(&mut self, other: Self) {
        self.holdings.join(other.holdings);
        self.met = self.met.saturating_add(other.met);
        if let Some((own, other)) = self.ended.as_mut().zip(other.ended) {
            own.extend(other);
        }
    }
}

/// Blocks that live.
struct LiveHoldings<'e> {
    holdings: Holdings,
    /// Those that were freed since.
    ended: &'e HashSet<u64>,
    peak: Option<&'e PeakPlace>,
    /// All that lives did then.
    peak_is_end: bool,
    /// The number that comes next, if it is asked for how long they have lived.
    next_number: Option<u64>,
    sizes_unknown: u64,
    /// Only those that lived at this moment.
    at: Option<Ticks>,
}

impl Fold<Entry> for LiveHoldings<'_> {
    #[inline]
    fn meet(&mut self, block: &Entry, _: u64) -> bool {
        let has_ended = !self.ended.is_empty() && self.ended.contains(&block.number);
        !has_ended && self.at.is_none_or(|at| is_before(block.time, at))
    }

    #[inline]
    fn add(&mut self, block: &Entry, _: Act, weight: u64) {
        let bytes = block.size.unwrap_or(0).saturating_mul(weight);
        let mut part = Amounts { live_bytes: bytes, live_blocks: weight, ..Amounts::default() };
        if self.peak.is_some_and(|peak| self.peak_is_end || peak.is_before(block.thread, block.number)) {
            (part.peak_bytes, part.peak_blocks) = (bytes, weight);
        }
        part.lived_events = self.next_number.map_or(0, |next| next.saturating_sub(block.number));
        self.holdings.add(block, part);
        self.sizes_unknown += u64::from(block.size.is_none());
    }

    fn join(&mut self, other: Self) {
        self.holdings.join(other.holdings);
        self.sizes_unknown += other.sizes_unknown;
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

    /// Adds the totals of another ledger; its call sites are its own, and these are forgotten.
    pub fn join_totals(&mut self, other: &SiteSums) {
        self.sites.clear();
        self.by_thread |= other.by_thread;
        self.total += other.total;
        self.frees_missing = self.frees_missing.saturating_add(other.frees_missing);
        self.is_whole &= other.is_whole;
        self.peak_error = self.peak_error.zip(other.peak_error).map(|(one, more)| one.saturating_add(more));
        self.peak_highest = None;
        self.frees_recorded &= other.frees_recorded;
        self.frees = self.frees.saturating_add(other.frees);
        self.filter = self.filter.take().or_else(|| other.filter.clone());
        self.sizes_unknown = self.sizes_unknown.saturating_add(other.sizes_unknown);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.sampled = match (self.sampled, other.sampled) {
            (Some(one), Some(more)) => Some(Sampled {
                // What is said of it is to be true of all.
                interval_bytes: one.interval_bytes.max(more.interval_bytes),
                samples: one.samples.saturating_add(more.samples),
            }),
            (one, more) => one.or(more),
        };
    }

    /// Has what lived count as freed: its process went on as another program, and its memory is gone.
    pub fn end_all(&mut self) {
        let end = |amounts: &mut Amounts| {
            amounts.freed_bytes = amounts.freed_bytes.saturating_add(std::mem::take(&mut amounts.live_bytes));
            amounts.freed_blocks = amounts.freed_blocks.saturating_add(std::mem::take(&mut amounts.live_blocks));
        };
        self.sites.iter_mut().for_each(|sum| end(&mut sum.amounts));
        end(&mut self.total);
    }

    /// Adds up the blocks of `ledger`, or those that `filter` means. Of a freed block it decides on the allocation.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        threads: Threads,
        filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<SiteSums, SourceError> {
        Self::add_up(ledger, threads, filter, None, progress)
    }

    /// The same of blocks that lived at a moment, in ticks: they are the live ones, and none is freed. Those that were freed since, and
    /// of which the history does not hold it any more, are missing; [`SiteSums::frees_missing`] says of how many frees that may be true.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn living_at(
        ledger: &Ledger,
        threads: Threads,
        filter: Option<&mut Evaluator<'_>>,
        at: Ticks,
    ) -> Result<SiteSums, SourceError> {
        Self::add_up(ledger, threads, filter, Some(at), &mut |_| ())
    }

    fn add_up(
        ledger: &Ledger,
        threads: Threads,
        mut filter: Option<&mut Evaluator<'_>>,
        at: Option<Ticks>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<SiteSums, SourceError> {
        let by_thread = threads == Threads::Apart;
        let may_grow = !ledger.is_finished();
        let known = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        let limit = if may_grow { known.saturating_add(SITES_MORE) } else { known }.max(1);
        if let Some(filter) = filter.as_deref_mut().filter(|filter| !filter.is_all()) {
            filter.prepare_events(progress)?;
        }
        let sampling = Sampling::of(ledger);
        let is_all = at.is_none() && filter.as_deref().is_none_or(Evaluator::is_all);
        let before = FreesBefore::of(ledger)?;
        let summed = if is_all && !by_thread { ledger.freed_sums(&|block| sampling.weight(block))? } else { None };
        let place = if summed.is_some() { ledger.peak_place()? } else { None };
        let bounds = if place.is_some() { PeakBounds::of(ledger)? } else { PeakBounds::default() };
        let workers = fold::workers(ledger, known, size_of::<Amounts>())?;
        // The history first: what is in it no longer lives, so nothing counts twice in a running program.
        let are_summed = summed.is_some();
        let fresh = || FreedHoldings {
            holdings: Holdings::new(by_thread, limit),
            before,
            met: 0,
            ended: may_grow.then(HashSet::new),
            are_summed,
            at,
        };
        // All of it is in the recorder's sums: nothing is to be learned from it but what a running program frees meanwhile.
        let freed = match are_summed && !may_grow {
            true => Folded { sum: fresh(), in_flight: 0 },
            false => fold::fold(ledger, filter.as_deref_mut(), workers, &fresh, &mut |_| {})?,
        };
        let ended = freed.sum.ended.unwrap_or_default();
        let peak = place.as_ref();
        let next_number = match are_summed && ledger.has_lifetimes() {
            true => Some(ledger.current_header()?.global(GlobalCounter::NextNumber)),
            false => None,
        };
        let fresh = || LiveHoldings {
            holdings: Holdings::new(by_thread, limit),
            ended: &ended,
            peak,
            peak_is_end: bounds.is_end,
            next_number,
            sizes_unknown: 0,
            at,
        };
        let live = fold::fold(ledger, filter.as_deref_mut(), workers, &fresh, progress)?;
        let mut holdings = freed.sum.holdings;
        holdings.join(live.sum.holdings);
        let mut met = freed.sum.met;
        if let Some(summed) = &summed {
            met = summed.sites.values().map(|sum| sum.blocks).fold(0, u64::saturating_add);
            let at_peak = |sum: &FreedSum| match bounds.is_end {
                true => FreedSum { peak_blocks: 0, peak_bytes: 0, ..*sum },
                false => *sum,
            };
            summed.sites.iter().for_each(|(site, sum)| holdings.add_freed(*site, &at_peak(sum)));
        }
        let mut found = SiteSums {
            by_thread,
            total: holdings.total,
            sizes_unknown: live.sum.sizes_unknown,
            in_flight: live.in_flight.saturating_add(freed.in_flight),
            filter: filter.filter(|filter| !filter.is_all()).map(|filter| filter.text().to_owned()),
            ..SiteSums::default()
        };
        let lifetimes = summed.filter(|_| next_number.is_some());
        found.lifetimes = lifetimes.map(|sums| sums.sites.into_iter().map(|(site, sum)| (site, sum.lived)).collect());
        found.frees = before.frees;
        found.frees_missing = before.missing(met);
        found.is_whole = are_summed;
        found.peak_error = place.map(|_| bounds.error());
        found.peak_highest = found.peak_error.map(|_| bounds.highest.bytes.max(found.total.live_bytes));
        found.peak_is_end = found.peak_error.is_some() && bounds.is_end;
        found.frees_recorded = are_summed || records_frees(ledger);
        found.sampled = sampling.from(holdings.samples);
        found.sites = holdings.finish();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use heapledger_format::Kind;

    use super::*;

    #[test]
    fn what_several_threads_added_up_comes_to_the_same() {
        for by_thread in [false, true] {
            let fresh = || Holdings::new(by_thread, 50);
            let (mut one, mut parts) = (fresh(), [fresh(), fresh()]);
            for number in 0..200u64 {
                let site = Site((number * 7 % 60) as u32);
                let thread = (!number.is_multiple_of(5)).then_some(ThreadRow(number as u32 % 3));
                let block = Entry {
                    number,
                    address: 0x1000,
                    size: Some(number),
                    actual: None,
                    kind: Kind::MALLOC,
                    site,
                    thread,
                    heap: None,
                    time: None,
                    ..Entry::NONE
                };
                let (live, freed) = ((number, 1), (2 * number, 2));
                let part = Amounts {
                    live_bytes: live.0,
                    live_blocks: live.1,
                    freed_bytes: freed.0,
                    freed_blocks: freed.1,
                    ..Amounts::default()
                };
                one.add(&block, part);
                // The sites of one part end before those of the other.
                parts[usize::from(site > Site(20))].add(&block, part);
            }
            let [mut joined, other] = parts;
            joined.join(other);
            assert_eq!((joined.total, joined.samples), (one.total, 200));
            let sites = one.finish();
            assert!(if by_thread { sites.len() > 50 } else { sites.len() == 50 }, "{}", sites.len());
            assert_eq!(joined.finish(), sites);
        }
    }
}
