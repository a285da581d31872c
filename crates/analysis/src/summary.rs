//! The totals of a ledger, from one pass over its records.

use std::collections::BTreeMap;

use heapledger_format::account::Account;
use heapledger_format::record::Options;
use heapledger_format::{Kind, SectionKind, TallyCounter, ThreadRow};
use heapledger_source::{Heap, Ledger, SourceError, Storage, Tallies, Thread};

use crate::chosen::Chosen;
use crate::counts::Counts;
use crate::peak::{PeakBounds, PeakMoment};
use crate::query::Evaluator;
use crate::{Clock, Identity, Memory, Note, Peak, Sampled, Sampling, Seen, Sites};

/// Blocks and bytes of one allocation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTotals {
    /// The function.
    pub kind: Kind,
    /// Blocks that it began, over the whole recording; `None` if the ledger does not count them by function, as a chip's.
    pub begun: Option<u64>,
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
    /// The heap, with a range in which all its live blocks lie.
    pub heap: Heap,
    /// Blocks in it that live.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// What of the heap is known to be there, if that is not all between its ends: of glibc's arenas what lies between the
    /// first and the last live block of each, of large mappings what they take, of others with wide gaps as of arenas.
    pub parts_bytes: Option<u64>,
}

impl HeapTotals {
    /// Whether its name is a plural.
    pub fn is_several(&self) -> bool {
        matches!(self.heap.name.as_str(), ARENAS | MAPPINGS)
    }
}

/// What glibc keeps in front of a block, and in front of one that is a mapping of its own.
const HEADERS: [(&str, u64); 3] = [(BRK, 8), (ARENAS, 8), (MAPPINGS, 16)];
const BRK: &str = "brk heap";
const ARENAS: &str = "arenas";
const MAPPINGS: &str = "large mappings";

/// How call stacks were found, in frames and in stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwinding {
    /// Frames proven to be those of the thread's last stack.
    pub frames_verified: u64,
    /// Frames found by one step of unwinding.
    pub frames_walked: u64,
    /// Steps for which unwind tables had to be read.
    pub rules_made: u64,
    /// Stacks that were compared with a full walk.
    pub compared: u64,
    /// Of these, those that differed.
    pub differing: u64,
}

/// The totals of a ledger. If it is [sampled](Summary::sampled), numbers of blocks and bytes are estimates; those of
/// records, stacks and losses are not.
///
/// With a filter these are of the blocks that it means, as far as the ledger has them: allocations, frees and their
/// bytes, what lives, kinds, heaps, live bytes of threads, and which call sites hold most. All else is of the whole
/// program.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Which blocks were added up, and how many of the freed ones are known; `None` if all were.
    pub chosen: Option<Chosen>,
    /// The program.
    pub identity: Identity,
    /// The ledger's clock.
    pub clock: Clock,
    /// What estimates come from; `None` if every block was entered and all figures are exact.
    pub sampled: Option<Sampled>,
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
    /// Of a forked child's ledger: frees of blocks that it had not entered itself, which are its parent's as a rule. They are in no other
    /// figure. `None` where blocks are sampled, too: most are not looked at.
    pub inherited_frees: Option<u64>,
    /// Blocks that live: records, or what they stand for.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// The standard error of `live_blocks`; 0 if exact.
    pub live_blocks_error: u64,
    /// The standard error of `live_bytes`; 0 if exact.
    pub live_bytes_error: u64,
    /// Bytes that they really have; `None` if not recorded.
    pub actual_bytes: Option<u64>,
    /// Bytes that the allocator keeps in front of them for itself; `None` if that is not known: it is of glibc's heaps.
    pub headers_bytes: Option<u64>,
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
    /// Which thread holds how much of which heap, if the program keeps accounts.
    pub accounts: Vec<Account>,
    /// Call sites; nothing of them [where they were not wanted](Summary::without_sites).
    pub sites: Sites,
    /// Entries of the history that can be read now; 0 where call sites were not wanted: it was not read.
    pub history_entries: u64,
    /// Entries that the history has room for.
    pub history_capacity: u64,
    /// What is recorded.
    pub options: Options,
    /// Most frames of a stack.
    pub depth_limit: u16,
    /// What the ledger takes up.
    pub storage: Storage,
    /// What the recorder took, and what for.
    pub memory: Memory,
    /// How stacks were found.
    pub unwinding: Unwinding,
    /// Losses and other totals of the recorder, those that are not 0.
    pub counters: Vec<(TallyCounter, u64)>,
    /// What was not seen.
    pub seen: Seen,
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
        Self::matching(ledger, clock, top, None, progress)
    }

    /// As [`Summary::of`], without what it says of call sites, for which the whole history is read.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn without_sites(ledger: &Ledger, clock: Clock, progress: &mut dyn FnMut(f32)) -> Result<Summary, SourceError> {
        Self::made(ledger, clock, None, None, progress)
    }

    /// As [`Summary::of`], of those blocks that `filter` means: of a freed one it decides on the allocation.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn matching(
        ledger: &Ledger,
        clock: Clock,
        top: usize,
        filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Summary, SourceError> {
        Self::made(ledger, clock, Some(top), filter, progress)
    }

    /// `top`: so many call sites, `None` if nothing is to be said of them.
    fn made(
        ledger: &Ledger,
        clock: Clock,
        top: Option<usize>,
        filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Summary, SourceError> {
        let mut filter = filter.filter(|filter| !filter.is_all());
        // The history first: what is in it no longer lives, so nothing counts twice in a running program.
        let chosen = filter.as_deref_mut().map(|filter| Chosen::of(ledger, filter, progress)).transpose()?;
        let running = ledger.is_running();
        let sampling = Sampling::of(ledger);
        let before = ledger.tallies()?;
        let site_limit = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        // A program that runs adds call sites meanwhile; they are found all the same.
        let site_limit = if running { site_limit.saturating_add(1 << 20) } else { site_limit };
        let (counts, read_in_flight) = Counts::of(ledger, site_limit, filter, progress)?;
        let taken = ledger.taken().unwrap_or_default();
        let in_flight = read_in_flight + taken.in_flight;
        let tallies = ledger.tallies()?;
        let sites = top.map(|top| Sites::of(ledger, &counts, top)).transpose()?;
        let (sites, history_entries) = sites.unwrap_or_default();
        let unaccounted =
            unaccounted(taken.before.unwrap_or(allocations_and_frees(&before)), &tallies, counts.all.blocks, in_flight);
        let mut seen = Seen::of(ledger, read_in_flight)?;
        // Totals are of all blocks.
        let unaccounted = if chosen.is_some() { 0 } else { unaccounted };
        if unaccounted != 0 {
            seen.notes.push(Note::Unaccounted { blocks: unaccounted, estimated: sampling.is_on() });
        }
        let header = ledger.current_header()?;
        let options = header.options;
        let whole = |counter| tallies.get(counter);
        let known = |counter, of_all: fn(&Chosen, &Counts) -> u64| match &chosen {
            Some(chosen) => of_all(chosen, &counts),
            None => whole(counter),
        };
        let lives = PeakMoment { bytes: counts.all.bytes, blocks: counts.all.blocks, time: counts.last_time };
        let counters = TallyCounter::ALL.iter().map(|counter| (*counter, tallies.get(*counter)));
        Ok(Summary {
            identity: Identity::of(ledger),
            clock,
            sampled: sampling.from(counts.all.samples),
            allocations: known(TallyCounter::Allocations, |chosen, counts| chosen.blocks + counts.all.blocks),
            frees: known(TallyCounter::Frees, |chosen, _| chosen.blocks),
            bytes_allocated: known(TallyCounter::BytesAllocated, |chosen, counts| {
                chosen.bytes.saturating_add(counts.all.bytes)
            }),
            bytes_freed: known(TallyCounter::BytesFreed, |chosen, _| chosen.bytes),
            failed_calls: tallies.get(TallyCounter::FailedCalls),
            unknown_frees: tallies.get(TallyCounter::UnknownFrees),
            inherited_frees: if ledger.is_of_fork() && ledger.sample_interval() == 0 {
                Some(ledger.count(SectionKind::Inherited)?)
            } else {
                None
            },
            live_blocks: counts.all.blocks,
            live_bytes: counts.all.bytes,
            live_blocks_error: counts.all.blocks_error(),
            live_bytes_error: counts.all.bytes_error(),
            actual_bytes: options.has(Options::ACTUAL_SIZE).then_some(counts.actual),
            headers_bytes: Self::headers(ledger, &counts)?.filter(|_| options.has(Options::ACTUAL_SIZE)),
            sizes_unknown: counts.sizes_unknown,
            in_flight,
            unaccounted,
            peak: PeakBounds::of(ledger)?.with_live(lives).peak(&clock),
            kinds: Self::kinds(&tallies, &counts, chosen.as_ref()),
            threads: Self::threads(ledger, &counts)?,
            heaps: Self::heaps(ledger, &counts)?,
            accounts: ledger.accounts()?,
            sites,
            history_entries,
            history_capacity: header.section(SectionKind::History).map_or(0, |section| section.capacity),
            options,
            depth_limit: header.depth_limit,
            storage: ledger.storage()?,
            memory: Memory::of(ledger, counts.all.samples)?,
            unwinding: Unwinding {
                frames_verified: tallies.get(TallyCounter::FramesVerified),
                frames_walked: tallies.get(TallyCounter::FramesWalked),
                rules_made: tallies.get(TallyCounter::RulesMade),
                compared: tallies.get(TallyCounter::StacksCompared),
                differing: tallies.get(TallyCounter::StacksDiffering),
            },
            counters: counters.filter(|(_, count)| *count != 0).collect(),
            seen,
            chosen,
        })
    }

    /// By when a thread had ended, in nanoseconds since the ledger began; `None` if it is not known to have ended, or the
    /// recorder did not see when.
    pub fn thread_ended_by_ns(&self, thread: &Thread) -> Option<u64> {
        let ns = self.clock.ns(thread.ended_by?)?;
        // What is kept is rounded up, and no thread outlives its program.
        Some(self.clock.span_ns().map_or(ns, |end| ns.min(end)))
    }

    fn kinds(tallies: &Tallies, counts: &Counts, chosen: Option<&Chosen>) -> Vec<KindTotals> {
        let mut kinds: BTreeMap<u8, KindTotals> = BTreeMap::new();
        let (begun, ended) = match chosen {
            Some(chosen) => chosen.by_kind(),
            None => (tallies.begun(), tallies.ended()),
        };
        let is_counted = chosen.is_some() || !begun.is_empty() || tallies.get(TallyCounter::Allocations) == 0;
        let none = is_counted.then_some(0);
        let fresh = |number| KindTotals { kind: Kind(number), begun: none, ended: 0, live_blocks: 0, live_bytes: 0 };
        for (number, begun) in begun {
            kinds.entry(number).or_insert_with(|| fresh(number)).begun = Some(begun);
        }
        for (number, ended) in ended {
            kinds.entry(number).or_insert_with(|| fresh(number)).ended = ended;
        }
        for (number, sum) in (0u8..=u8::MAX).zip(counts.kinds).filter(|(_, sum)| sum.blocks != 0) {
            let totals = kinds.entry(number).or_insert_with(|| fresh(number));
            (totals.live_blocks, totals.live_bytes) = (sum.blocks, sum.bytes);
            if chosen.is_some() {
                totals.begun = totals.begun.map(|begun| begun.saturating_add(sum.blocks));
            }
        }
        kinds.into_values().collect()
    }

    fn threads(ledger: &Ledger, counts: &Counts) -> Result<Vec<ThreadTotals>, SourceError> {
        let mut others = counts.without_thread;
        let mut left = counts.threads.clone();
        let mut threads: Vec<ThreadTotals> = Vec::new();
        for thread in ledger.threads()? {
            let sum = left.get_mut(thread.row.0 as usize).map(std::mem::take).unwrap_or_default();
            threads.push(ThreadTotals { thread: Some(thread), live_blocks: sum.blocks, live_bytes: sum.bytes });
        }
        for sum in left {
            others.join(sum);
        }
        if others.blocks != 0 {
            threads.push(ThreadTotals { thread: None, live_blocks: others.blocks, live_bytes: others.bytes });
        }
        let last = ThreadRow(u32::MAX);
        threads.sort_by_key(|totals| (!totals.live_bytes, totals.thread.as_ref().map_or(last, |thread| thread.row)));
        Ok(threads)
    }

    fn heaps(ledger: &Ledger, counts: &Counts) -> Result<Vec<HeapTotals>, SourceError> {
        let heaps = ledger.heaps()?.into_iter().map(|heap| {
            let sum = counts.heaps.get(heap.row as usize).copied().unwrap_or_default();
            let actual = counts.heaps_actual.get(heap.row as usize).copied().unwrap_or_default();
            let heap = counts.extents.widen(heap);
            let parts_bytes = match heap.name.as_str() {
                ARENAS => Some(counts.extents.bytes_in_regions(heap.row)),
                MAPPINGS => Some(actual.saturating_add(sum.blocks.saturating_mul(header(MAPPINGS).unwrap_or(0)))),
                BRK => None,
                // What another allocator has lies wherever the kernel put it.
                _ => counts.extents.is_scattered(&heap).then(|| counts.extents.bytes_in_regions(heap.row)),
            };
            HeapTotals { heap, live_blocks: sum.blocks, live_bytes: sum.bytes, parts_bytes }
        });
        Ok(heaps.collect())
    }

    /// What the allocator keeps in front of the live blocks.
    fn headers(ledger: &Ledger, counts: &Counts) -> Result<Option<u64>, SourceError> {
        let (mut bytes, mut blocks) = (0u64, 0u64);
        for heap in ledger.heaps()? {
            let sum = counts.heaps.get(heap.row as usize).copied().unwrap_or_default();
            if let Some(each) = header(&heap.name) {
                blocks = blocks.saturating_add(sum.blocks);
                bytes = bytes.saturating_add(sum.blocks.saturating_mul(each));
            }
        }
        // One block of another heap, and nobody knows.
        Ok((blocks == counts.all.blocks).then_some(bytes))
    }
}

fn header(heap: &str) -> Option<u64> {
    HEADERS.iter().find(|(name, _)| *name == heap).map(|(_, bytes)| *bytes)
}

/// By how much totals and records disagree. In a running program the totals move while the records are
/// read; only what lies outside of what they were before and after is a disagreement.
fn unaccounted(before: [u64; 2], after: &Tallies, live: u64, in_flight: u64) -> i64 {
    let [before, after] = [before, allocations_and_frees(after)].map(|totals| totals.map(i128::from));
    let low = before[0] - after[1];
    let high = after[0] - before[1];
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

fn allocations_and_frees(tallies: &Tallies) -> [u64; 2] {
    [tallies.get(TallyCounter::Allocations), tallies.get(TallyCounter::Frees)]
}
