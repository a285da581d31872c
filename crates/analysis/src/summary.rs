//! The totals of a ledger, from one pass over its records.

use std::collections::BTreeMap;

use heapledger_source::format::record::Options;
use heapledger_source::format::{Entry, GlobalCounter, Kind, SectionKind, TallyCounter};
use heapledger_source::{Heap, Ledger, SourceError, Storage, Tallies, Thread};

use crate::{Clock, Identity, Note, Seen};

/// Blocks and bytes of one allocation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTotals {
    /// The function.
    pub kind: Kind,
    /// Blocks that it began, over the whole recording.
    pub begun: u64,
    /// Blocks that it ended.
    pub ended: u64,
    /// Blocks of it that live.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
}

/// What one thread allocated and what of it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The thread; `None` for all that have no row.
    pub thread: Option<Thread>,
    /// Blocks allocated by it that live.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
}

/// What of one heap lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapTotals {
    /// The heap.
    pub heap: Heap,
    /// Blocks in it that live.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
}

/// What one call site holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTotals {
    /// The site: a whole stack.
    pub site: u32,
    /// Blocks that live.
    pub blocks: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
}

/// Call sites in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// Distinct stacks that hold live blocks.
    pub live: u64,
    /// Distinct stacks that were seen at all: ends of branches, and stacks of live and freed blocks.
    pub distinct: u64,
    /// Bytes that all of them take in the ledger.
    pub bytes: u64,
    /// Those that hold most bytes, most first.
    pub top: Vec<SiteTotals>,
}

/// The highest that live bytes were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes asked for.
    pub bytes: u64,
    /// Blocks at that time.
    pub blocks: u64,
    /// When, in nanoseconds since the ledger began.
    pub time_ns: Option<u64>,
    /// By how much `bytes` may be off.
    pub error_bytes: u64,
}

/// The totals of a ledger.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The program.
    pub identity: Identity,
    /// The ledger's clock.
    pub clock: Clock,
    /// Blocks entered.
    pub allocations: u64,
    /// Of them, freed.
    pub frees: u64,
    /// Bytes asked for in all blocks entered.
    pub bytes_allocated: u64,
    /// Bytes asked for in all freed blocks.
    pub bytes_freed: u64,
    /// Calls that returned no block.
    pub failed_calls: u64,
    /// Frees of blocks that the ledger does not know.
    pub unknown_frees: u64,
    /// Blocks that live: records.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// Bytes that they really have; `None` if not recorded.
    pub actual_bytes: Option<u64>,
    /// Live blocks whose size is not known.
    pub sizes_unknown: u64,
    /// Records that were being written when they were read.
    pub in_flight: u64,
    /// Allocations less frees less live blocks less those in flight: 0 unless something is missing.
    pub unaccounted: i64,
    /// The peak.
    pub peak: Peak,
    /// By function, those with any calls.
    pub kinds: Vec<KindTotals>,
    /// By thread, most live bytes first.
    pub threads: Vec<ThreadTotals>,
    /// By heap, in the ledger's order.
    pub heaps: Vec<HeapTotals>,
    /// Call sites.
    pub sites: Sites,
    /// Entries of the history that can be read now.
    pub history_entries: u64,
    /// Entries that the history has room for.
    pub history_capacity: u64,
    /// What is recorded.
    pub options: Options,
    /// Most frames of a stack.
    pub depth_limit: u16,
    /// What the ledger takes up.
    pub storage: Storage,
    /// Losses and other totals of the recorder, those that are not 0.
    pub counters: Vec<(TallyCounter, u64)>,
    /// What was not seen.
    pub seen: Seen,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    blocks: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, entry: &Entry) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(entry.size.unwrap_or(0));
    }
}

/// Live blocks by kind, thread, heap and site.
struct Counts {
    kinds: [Sum; 256],
    threads: Vec<Sum>,
    without_thread: Sum,
    heaps: [Sum; 256],
    sites: Vec<Sum>,
    site_limit: usize,
    all: Sum,
    actual: u64,
    sizes_unknown: u64,
    last_time: u64,
}

/// Rows of threads in the widest record.
const THREAD_ROWS: usize = 1 << 16;

impl Counts {
    fn new(site_limit: usize) -> Counts {
        Counts {
            kinds: [Sum::default(); 256],
            threads: Vec::new(),
            without_thread: Sum::default(),
            heaps: [Sum::default(); 256],
            sites: Vec::new(),
            site_limit,
            all: Sum::default(),
            actual: 0,
            sizes_unknown: 0,
            last_time: 0,
        }
    }

    fn add(&mut self, entry: &Entry) {
        self.all.add(entry);
        self.actual = self.actual.saturating_add(entry.actual.or(entry.size).unwrap_or(0));
        self.sizes_unknown += u64::from(entry.size.is_none());
        self.last_time = self.last_time.max(entry.time.unwrap_or(0));
        if let Some(sum) = self.kinds.get_mut(usize::from(entry.kind.0)) {
            sum.add(entry);
        }
        if let Some(sum) = entry.heap.and_then(|heap| self.heaps.get_mut(usize::from(heap))) {
            sum.add(entry);
        }
        match entry.thread.map(|row| row as usize).filter(|row| *row < THREAD_ROWS) {
            Some(row) => at(&mut self.threads, row).add(entry),
            None => self.without_thread.add(entry),
        }
        let site = entry.site as usize;
        if site < self.site_limit {
            at(&mut self.sites, site).add(entry);
        }
    }
}

/// The sum at `index`, made if it is not there.
fn at(sums: &mut Vec<Sum>, index: usize) -> &mut Sum {
    if index >= sums.len() {
        sums.resize((index + 1).max(sums.len() * 2), Sum::default());
    }
    &mut sums[index]
}

impl Summary {
    /// Goes through `ledger` once. The `top` call sites are listed. `progress` hears how far it is, from 0 to 1.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        clock: Clock,
        top: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Summary, SourceError> {
        let running = ledger.is_running();
        let before = ledger.tallies()?;
        let site_limit = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        // A program that runs adds call sites meanwhile; they are found all the same.
        let mut counts = Counts::new(if running { site_limit.saturating_add(1 << 20) } else { site_limit });
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            chunk.iter().for_each(|entry| counts.add(entry));
        }
        let in_flight = records.in_flight();
        let tallies = ledger.tallies()?;
        let (history_entries, sites) = Self::sites(ledger, &counts, top)?;
        let unaccounted = unaccounted(&before, &tallies, counts.all.blocks, in_flight);
        let mut seen = Seen::of(ledger, in_flight)?;
        if unaccounted != 0 {
            seen.notes.push(Note::Unaccounted(unaccounted));
        }
        let header = ledger.current_header()?;
        let options = header.options;
        let counters = TallyCounter::ALL.iter().map(|counter| (*counter, tallies.get(*counter)));
        Ok(Summary {
            identity: Identity::of(ledger),
            clock,
            allocations: tallies.get(TallyCounter::Allocations),
            frees: tallies.get(TallyCounter::Frees),
            bytes_allocated: tallies.get(TallyCounter::BytesAllocated),
            bytes_freed: tallies.get(TallyCounter::BytesFreed),
            failed_calls: tallies.get(TallyCounter::FailedCalls),
            unknown_frees: tallies.get(TallyCounter::UnknownFrees),
            live_blocks: counts.all.blocks,
            live_bytes: counts.all.bytes,
            actual_bytes: options.has(Options::ACTUAL_SIZE).then_some(counts.actual),
            sizes_unknown: counts.sizes_unknown,
            in_flight,
            unaccounted,
            peak: Self::peak(ledger, &counts, clock)?,
            kinds: Self::kinds(&tallies, &counts),
            threads: Self::threads(ledger, &counts)?,
            heaps: Self::heaps(ledger, &counts)?,
            sites,
            history_entries,
            history_capacity: header.section(SectionKind::History).map_or(0, |section| section.capacity),
            options,
            depth_limit: header.depth_limit,
            storage: ledger.storage()?,
            counters: counters.filter(|(_, count)| *count != 0).collect(),
            seen,
        })
    }

    fn peak(ledger: &Ledger, counts: &Counts, clock: Clock) -> Result<Peak, SourceError> {
        let header = ledger.current_header()?;
        let recorded = header.global(GlobalCounter::PeakBytes);
        // Threads report in batches: what lives now may be more than the highest that was reported.
        Ok(if recorded >= counts.all.bytes {
            Peak {
                bytes: recorded,
                blocks: header.global(GlobalCounter::PeakBlocks),
                time_ns: clock.ns(header.global(GlobalCounter::PeakTime)),
                error_bytes: header.global(GlobalCounter::PeakError),
            }
        } else {
            Peak {
                bytes: counts.all.bytes,
                blocks: counts.all.blocks,
                time_ns: clock.ns(counts.last_time),
                error_bytes: header.global(GlobalCounter::PeakError),
            }
        })
    }

    fn kinds(tallies: &Tallies, counts: &Counts) -> Vec<KindTotals> {
        let mut kinds: BTreeMap<u8, KindTotals> = BTreeMap::new();
        let fresh = |number| KindTotals { kind: Kind(number), begun: 0, ended: 0, live_blocks: 0, live_bytes: 0 };
        for (number, begun) in tallies.begun() {
            kinds.entry(number).or_insert_with(|| fresh(number)).begun = begun;
        }
        for (number, ended) in tallies.ended() {
            kinds.entry(number).or_insert_with(|| fresh(number)).ended = ended;
        }
        for (number, sum) in (0u8..=u8::MAX).zip(counts.kinds).filter(|(_, sum)| sum.blocks != 0) {
            let totals = kinds.entry(number).or_insert_with(|| fresh(number));
            (totals.live_blocks, totals.live_bytes) = (sum.blocks, sum.bytes);
        }
        kinds.into_values().collect()
    }

    fn threads(ledger: &Ledger, counts: &Counts) -> Result<Vec<ThreadTotals>, SourceError> {
        let mut others = counts.without_thread;
        let mut left = counts.threads.clone();
        let mut threads: Vec<ThreadTotals> = Vec::new();
        for thread in ledger.threads()? {
            let sum = left.get_mut(thread.row as usize).map(std::mem::take).unwrap_or_default();
            threads.push(ThreadTotals { thread: Some(thread), live_blocks: sum.blocks, live_bytes: sum.bytes });
        }
        for sum in left {
            others.blocks += sum.blocks;
            others.bytes = others.bytes.saturating_add(sum.bytes);
        }
        if others.blocks != 0 {
            threads.push(ThreadTotals { thread: None, live_blocks: others.blocks, live_bytes: others.bytes });
        }
        threads
            .sort_by_key(|totals| (!totals.live_bytes, totals.thread.as_ref().map_or(u32::MAX, |thread| thread.row)));
        Ok(threads)
    }

    fn heaps(ledger: &Ledger, counts: &Counts) -> Result<Vec<HeapTotals>, SourceError> {
        let heaps = ledger.heaps()?.into_iter().map(|heap| {
            let sum = counts.heaps.get(heap.row as usize).copied().unwrap_or_default();
            HeapTotals { heap, live_blocks: sum.blocks, live_bytes: sum.bytes }
        });
        Ok(heaps.collect())
    }

    /// How many history entries there are, and the call sites.
    fn sites(ledger: &Ledger, counts: &Counts, top: usize) -> Result<(u64, Sites), SourceError> {
        let nodes = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        // One bit a node: whether a stack ends there (a branch does, or a block was allocated or freed there).
        let mut inner = Bits::default();
        ledger.for_each_site(&mut |node, parent| {
            if node != 0 && (parent as usize) < nodes {
                inner.set(parent as usize);
            }
        })?;
        let mut ends = Bits::default();
        let mut history_entries = 0u64;
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            for entry in chunk {
                history_entries += 1;
                for site in [entry.block.site, entry.site] {
                    if (site as usize) < nodes {
                        ends.set(site as usize);
                    }
                }
            }
        }
        let used = |(_, sum): &(u32, &Sum)| sum.blocks != 0;
        let live = || (0u32..=u32::MAX).zip(&counts.sites).skip(1).filter(used);
        live().for_each(|(site, _)| ends.set(site as usize));
        let distinct = (1..nodes.max(1)).filter(|node| !inner.get(*node) || ends.get(*node)).count() as u64;
        let mut sites: Vec<SiteTotals> =
            live().map(|(site, sum)| SiteTotals { site, blocks: sum.blocks, bytes: sum.bytes }).collect();
        let total = sites.len() as u64;
        let order = |totals: &SiteTotals| (!totals.bytes, !totals.blocks, totals.site);
        if top < sites.len() {
            if top > 0 {
                sites.select_nth_unstable_by_key(top - 1, order);
            }
            sites.truncate(top);
        }
        sites.sort_unstable_by_key(order);
        let bytes = [SectionKind::Sites, SectionKind::Pcs].into_iter().try_fold(0u64, |sum, kind| {
            let element_bytes = ledger.header().section(kind).map_or(0, |section| u64::from(section.element_bytes));
            Ok::<_, SourceError>(sum.saturating_add(ledger.count(kind)?.saturating_mul(element_bytes)))
        })?;
        Ok((history_entries, Sites { live: total, distinct, bytes, top: sites }))
    }
}

#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, index: usize) {
        if index / 64 >= self.0.len() {
            self.0.resize(index / 64 + 1, 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn get(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

/// By how much totals and records disagree. In a running program the totals move while the records are
/// read; only what lies outside of what they were before and after is a disagreement.
fn unaccounted(before: &Tallies, after: &Tallies, live: u64, in_flight: u64) -> i64 {
    let allocations = |tallies: &Tallies| i128::from(tallies.get(TallyCounter::Allocations));
    let frees = |tallies: &Tallies| i128::from(tallies.get(TallyCounter::Frees));
    let low = allocations(before) - frees(after);
    let high = allocations(after) - frees(before);
    let seen = i128::from(live) + i128::from(in_flight);
    let missing = if seen < low {
        low - seen
    } else if seen > high {
        high - seen
    } else {
        0
    };
    missing.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
