//! Everything that the threads of a process share.

#![forbid(unsafe_code)]

use crate::accounts::Accounts;
use crate::depth_in_force::DepthInForce;
use crate::errors::Errors;
use crate::family::ForkedChildren;
use crate::guard_memory;
use crate::guarded::Level;
use crate::guarding::Guarding;
use crate::heap_books::HeapBooks;
use crate::history::History;
use crate::index::{Addresses, Index};
use crate::labels::Labels;
use crate::ledger::Ledger;
use crate::marks::Marks;
use crate::modules::Modules;
use crate::once::Early;
use crate::options::{Scripts, Unwind};
use crate::order::Returned;
use crate::peak::{Figures, Peak};
use crate::sampling::Sampling;
use crate::sites::Sites;
use crate::slots::{Pool, Vacant};
use crate::state::{HeapRange, StateRoom, ThreadBooks};
use crate::summing::Sums;
use crate::switch::Switch;
use crate::texts::Texts;
use crate::threads::Threads;
use crate::timeline::TimelineNotes;
use crate::windows::Windows;
use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::bytes::WordSize;
use heapledger_format::record::{Options, RECORD_WORDS};
use heapledger_format::sample::SampleRule;
use heapledger_format::section::heap;
use heapledger_format::{GlobalCounter, SectionKind, Ticks};
use heapledger_linux::clock::{Clock, thread_ran_ns};
use heapledger_linux::{apart, syscall};
use heapledger_recorder::backend::Slot;

/// A heap's row in words, and those of its range.
const HEAP_WORDS: usize = heap::bytes(WordSize::W64) / 8;
const HEAP_LOW: usize = heap::low(WordSize::W64) / 8;
const HEAP_HIGH: usize = heap::high(WordSize::W64) / 8;
/// Nanoseconds of a tick.
pub const TICK_NS: u32 = 1000;

/// The ledger's ticks in so many nanoseconds.
#[inline(always)]
pub fn ticks(ns: u64) -> Ticks {
    const NS: u64 = TICK_NS as u64;
    Ticks(ns / NS)
}
/// Updates that a thread may keep to itself.
pub const PENDING_UPDATES_MAX: u32 = 256;

/// Where the recorder is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nobody has called yet.
    Unstarted = 0,
    /// The first caller is setting up; others pass through.
    Starting = 1,
    /// There is a ledger; the [switch](crate::switch) says what is entered.
    On = 2,
    /// Nothing is entered in this process (any more).
    Off = 3,
}

/// What is chosen when recording starts and never changed.
#[derive(Clone, Copy)]
pub struct Settings {
    /// What is recorded.
    pub options: Options,
    /// Most frames of a stack.
    pub depth_limit: usize,
    /// Which scripts' lines stacks have.
    pub scripts: Scripts,
    /// How stacks are taken.
    pub unwind: Unwind,
    /// Fewest frames with which a stack found by frame pointers is believed.
    pub fallback: usize,
    /// Whether every stack is also taken in full and compared.
    pub check_stacks: bool,
    /// Whether the last stack is used for the next.
    pub reuse: bool,
    /// Mean bytes between two samples; 0: every block is entered.
    pub sample: u64,
    /// What weights of samples are rounded by; 0 where there are none.
    pub sample_seed: u64,
    /// Neither sampled nor accounted for: a block stands for itself, and that is all. One look instead of two. Where it is not so and
    /// [`Settings::sample`] is 0, accounts are kept.
    pub is_plain: bool,
    /// Nothing is asked for that an event would have to look at, but perhaps more of a free's stack than its caller: see
    /// [`Settings::is_usual_with`].
    pub is_usual_but_depth: bool,
    /// See [`Hooks::tells_of_memory`](crate::start::Hooks::tells_of_memory).
    pub tells_of_memory: bool,
    /// What becomes of forked children.
    pub forked_children: ForkedChildren,
    /// This process is such a child that has begun: blocks end that it has not allocated.
    pub is_forked: bool,
    /// How blocks are guarded.
    pub guard: Guarding,
}

impl Settings {
    /// For how many blocks a sample stands.
    pub(crate) fn sample_rule(&self) -> SampleRule {
        SampleRule { interval: self.sample, seed: self.sample_seed }
    }

    /// Whether events are entered as they mostly are: with their stacks, sizes and times, each of them, and not guarded. If then the caller alone
    /// is taken where a block ends, hooks that have been compiled for that look at none of these again.
    pub(crate) fn is_usual_with(&self, has_history: bool) -> bool {
        let all =
            [Options::STACK, Options::ACTUAL_SIZE, Options::TIME].into_iter().all(|option| self.options.has(option));
        let is_default = !self.check_stacks && self.guard.level == Level::Off;
        all && is_default && self.sample == 0 && has_history
    }

    const fn none() -> Settings {
        Settings {
            options: Options(0),
            depth_limit: 0,
            scripts: Scripts::None,
            unwind: Unwind::Auto,
            fallback: 0,
            check_stacks: false,
            reuse: false, // all zeros: what is not costs no room in the library's file
            sample: 0,
            sample_seed: 0,
            is_plain: false,
            is_usual_but_depth: false,
            tells_of_memory: false,
            forked_children: ForkedChildren::PassBy,
            is_forked: false,
            guard: Guarding::none(),
        }
    }
}

/// The shared tables. Fresh zeros are a valid value, so it can be a `static` that costs nothing before it is used.
///
/// There is one in a process, [`SHARED`]: a thread's word leads to the state that the thread has in one, and nobody can make
/// a second.
pub struct Shared {
    pub(crate) phase: AtomicU8,
    /// What is recorded.
    pub switch: Switch,
    pub(crate) clock: Clock,
    /// What is taken of the stack of a call that ends a block.
    pub(crate) free_depth: DepthInForce,
    pub(crate) ledger: Early<Ledger>,
    pub(crate) settings: Early<Settings>,
    /// Address to slot.
    pub index: Index,
    /// Vacant slots.
    pub pool: Pool,
    /// Freed blocks.
    pub history: History,
    /// What other threads gave back where.
    pub returned: Returned,
    /// Who holds how much.
    pub accounts: Accounts,
    /// What was freed, by call site.
    pub sums: Sums,
    pub(crate) errors: Errors,
    /// Call stacks.
    pub sites: Sites,
    /// Loaded modules.
    pub modules: Modules,
    /// States of threads.
    pub threads: Threads,
    /// How often memory was given back or protected: what was readable need not be so any more.
    pub memory_changes: AtomicU32,
    /// Where the first thread's stack ends.
    pub first_stack_end: AtomicUsize,
    /// What tells blocks that are not samples.
    pub sampling: Sampling,
    pub(crate) peak: Peak,
    /// Texts that the program gave.
    pub texts: Texts,
    /// Moments that it named.
    pub marks: Marks,
    /// Labels that it made.
    pub labels: Labels,
    /// Windows that it opened.
    pub windows: Windows,
    /// Figures over time.
    pub(crate) timeline: TimelineNotes,
    live_blocks: AtomicI64,
    next_measure_ns: AtomicU64,
    next_measure_if_grown_ns: AtomicU64,
    /// Bytes of the ledger when memory was last measured.
    measured_ledger_bytes: AtomicU64,
    /// Address to slot, of blocks of [inner](crate::inner) allocators. Untouched where there are none.
    pub inner: Index,
    /// What the program's own heaps hold.
    pub heap_books: HeapBooks,
}

/// What is shared by the threads of this process.
pub static SHARED: Shared = Shared::new();

impl Shared {
    /// Tables of a process in which nothing has been recorded.
    const fn new() -> Shared {
        Shared {
            phase: AtomicU8::new(Phase::Unstarted as u8),
            switch: Switch::new(),
            clock: Clock::new(),
            free_depth: DepthInForce::new(),
            ledger: Early::new(Ledger::new()),
            settings: Early::new(Settings::none()),
            index: Index::new(),
            pool: Pool::new(),
            history: History::new(),
            returned: Returned::new(),
            accounts: Accounts::new(),
            sums: Sums::new(),
            errors: Errors::new(),
            sites: Sites::new(),
            modules: Modules::new(),
            threads: Threads::new(),
            memory_changes: AtomicU32::new(0),
            first_stack_end: AtomicUsize::new(0),
            sampling: Sampling::new(),
            peak: Peak::new(),
            texts: Texts::new(),
            marks: Marks::new(),
            labels: Labels::new(),
            windows: Windows::new(),
            timeline: TimelineNotes::new(),
            live_blocks: AtomicI64::new(0),
            next_measure_ns: AtomicU64::new(0),
            next_measure_if_grown_ns: AtomicU64::new(0),
            measured_ledger_bytes: AtomicU64::new(0),
            inner: Index::new(),
            heap_books: HeapBooks::new(),
        }
    }

    /// The ledger.
    #[inline(always)]
    pub fn ledger(&self) -> &Ledger {
        self.ledger.get()
    }

    /// The settings.
    #[inline(always)]
    pub fn settings(&self) -> &Settings {
        self.settings.get()
    }

    /// What the state of each thread has room for.
    pub(crate) fn state_room(&self) -> StateRoom {
        let settings = self.settings();
        StateRoom { depth_limit: settings.depth_limit, scripts: settings.scripts }
    }

    /// Ticks since the ledger began.
    #[inline]
    pub fn now(&self) -> Ticks {
        ticks(self.clock.now_ns())
    }

    /// Writes down how much memory outside of the ledger the recorder uses, if that was not done lately.
    #[inline(always)]
    pub fn measure_now_and_then(&self, now_ns: u64) {
        let has_grown = || self.ledger().backed_bytes() != self.measured_ledger_bytes.load(Ordering::Relaxed);
        if now_ns >= self.next_measure_ns.load(Ordering::Relaxed)
            || now_ns >= self.next_measure_if_grown_ns.load(Ordering::Relaxed) && has_grown()
        {
            self.measure(false);
        }
    }

    /// This moment is 0; returns it in nanoseconds since 1970. A forked child, which may end at once, is measured when it has lived for a
    /// millisecond: that takes as long as a good part of its beginning.
    pub(crate) fn begin_time(&self, is_child: bool) -> u64 {
        const LATER_NS: u64 = 1_000_000;
        let first_ns = if is_child { LATER_NS } else { 0 };
        self.next_measure_ns.store(first_ns, Ordering::Relaxed);
        self.next_measure_if_grown_ns.store(first_ns, Ordering::Relaxed);
        self.clock.start()
    }

    /// The same at once. `all`: of every thread's state, and not of some of them.
    #[cold]
    #[inline(never)]
    pub fn measure(&self, all: bool) {
        apart::run(&mut || self.measure_here(all));
    }

    /// Code, constants and tables of the library itself. Of what comes from its file the kernel says whether it is in the page cache;
    /// nearly all of it is used. Asked once, for forked children, too: that takes as long as all other tables.
    fn library_bytes(&self) -> u64 {
        static KNOWN: AtomicU64 = AtomicU64::new(0);
        if KNOWN.load(Ordering::Relaxed) == 0 {
            let own = self.modules.own_module();
            KNOWN.store(syscall::resident_bytes(own.start, own.end.wrapping_sub(own.start)), Ordering::Relaxed);
        }
        KNOWN.load(Ordering::Relaxed)
    }

    fn measure_here(&self, all: bool) {
        /// So much of the time may go into it: a question to the kernel for each thread and 4 MiB of heap adds up.
        const ONE_PART_IN: u64 = 1000;
        /// Sooner if the ledger has grown since: then the tables outside have, too.
        const ONE_PART_IN_IF_GROWN: u64 = 50;
        const PAUSE_NS_MAX: u64 = 1_000_000_000;
        let (begin_ns, ran_ns) = (self.clock.now_ns(), thread_ran_ns());
        let due_ns = self.next_measure_ns.swap(u64::MAX, Ordering::Relaxed);
        if due_ns == u64::MAX && !all {
            return; // another thread is at it, and will set it
        }
        self.measured_ledger_bytes.store(self.ledger().backed_bytes(), Ordering::Relaxed);
        let states = self.threads.resident_bytes(self.state_room(), all);
        let tables = self.sites.resident_bytes();
        let shadow = self.index.resident_bytes().wrapping_add(self.inner.resident_bytes());
        let library = self.library_bytes();
        let put = |counter, bytes| self.ledger().global(counter).store(bytes, Ordering::Relaxed);
        put(GlobalCounter::ThreadsPrivateBytes, states);
        put(GlobalCounter::SitesPrivateBytes, tables);
        put(GlobalCounter::ShadowBytes, shadow);
        let guard = guard_memory::measure(self);
        let sums = self.sums.resident_bytes();
        let others = [library, self.history.resident_bytes(), self.accounts.resident_bytes(), sums, guard];
        put(GlobalCounter::PrivateBytes, [states, tables, shadow].iter().chain(&others).sum());
        self.note_figures(ticks(begin_ns));
        let end_ns = self.clock.now_ns();
        // What this thread may have waited for a processor meanwhile does not count: on a busy machine the figures would stay those of
        // long ago.
        let took_ns = ran_ns
            .zip(thread_ran_ns())
            .map_or(end_ns.saturating_sub(begin_ns), |(first, last)| last.saturating_sub(first));
        let pause_ns = |part: u64| part.saturating_mul(took_ns).min(PAUSE_NS_MAX);
        self.next_measure_if_grown_ns.store(end_ns.wrapping_add(pause_ns(ONE_PART_IN_IF_GROWN)), Ordering::Relaxed);
        self.next_measure_ns.store(end_ns.wrapping_add(pause_ns(ONE_PART_IN)), Ordering::Relaxed);
    }

    /// Enters the address ranges of the heaps that a thread has seen.
    pub fn widen_ranges(&self, state: &ThreadBooks) {
        let heaps = self.ledger().section(SectionKind::Heaps);
        for (row, range) in (0..heaps.used()).zip(&state.ranges).filter(|(_, range)| **range != HeapRange::default()) {
            let row: &[AtomicU64; HEAP_WORDS] = heaps.element(row);
            let (low, high) = (!range.below_low as u64, range.high as u64);
            // Looking first keeps the line shared: ranges widen rarely.
            if low < row[HEAP_LOW].load(Ordering::Relaxed) {
                row[HEAP_LOW].fetch_min(low, Ordering::Relaxed);
            }
            if high > row[HEAP_HIGH].load(Ordering::Relaxed) {
                row[HEAP_HIGH].fetch_max(high, Ordering::Relaxed);
            }
        }
    }

    /// Folds a thread's pending live bytes into the ledger's, and follows the peak. `events`: how many of its last numbers are of what is
    /// folded in only now, and was not kept back before: 1 in the middle of an event, else 0.
    #[cold]
    #[inline(never)]
    fn fold(&self, state: &mut ThreadBooks, events: u64) {
        self.widen_ranges(state);
        self.accounts.fold(self.ledger(), state);
        let (bytes, blocks) = (state.pending_bytes, state.pending_blocks);
        state.pending_bytes = 0;
        state.pending_blocks = 0;
        state.pending_updates = 0;
        state.folded_blocks = self.live_blocks.fetch_add(blocks, Ordering::Relaxed).wrapping_add(blocks);
        let single = self.threads.is_single();
        // What is folded in now was not part of a peak that is known before.
        let known = self.ledger().global(GlobalCounter::PeakBytes).load(Ordering::SeqCst);
        state.note_known_peak(known, events);
        let folded = self.peak.fold(self, bytes, &mut state.allowance, single);
        state.folded_bytes = folded.live;
        let before = folded.live.wrapping_sub(bytes);
        if before > known as i64 && before >= folded.highest {
            // The last that another thread has folded in was a peak, and that one has not come to say so, or has just now.
            self.ledger().global(GlobalCounter::PeakBytes).fetch_max(before as u64, Ordering::SeqCst);
            state.note_cut(state.next_number.wrapping_sub(events), before as u64);
        }
        if folded.live > folded.highest {
            self.note_peak(state);
        }
        state.headroom = if single { folded.highest.wrapping_sub(folded.live).max(0) } else { i64::MAX };
    }

    /// Ends the affairs of a thread that is gone: what it kept to itself, and what it was allowed to.
    pub fn fold_last(&self, state: &mut ThreadBooks) {
        self.fold(state, 0);
        self.peak.give_back(&mut state.allowance);
    }

    /// Live bytes are higher than ever before, as far as this thread knows.
    #[inline(always)]
    fn note_peak(&self, state: &ThreadBooks) {
        let ledger = self.ledger();
        let bytes = state.folded_bytes.wrapping_add(state.pending_bytes);
        let peak = ledger.global(GlobalCounter::PeakBytes);
        peak.fetch_max(bytes as u64, Ordering::Relaxed);
        state.note_cut(state.next_number, bytes as u64);
        let (time, blocks) = (state.ticks, state.folded_blocks.wrapping_add(state.pending_blocks));
        ledger.global(GlobalCounter::PeakTime).store(time.0, Ordering::Relaxed);
        ledger.global(GlobalCounter::PeakBlocks).store(blocks.max(0) as u64, Ordering::Relaxed);
    }

    /// Follows live bytes of one thread. They are kept back and folded in now and then. As long as there is one
    /// thread, it knows the peak, which is exact then.
    #[inline(always)]
    pub fn live(&self, state: &mut ThreadBooks, bytes: i64, blocks: i64) {
        state.pending_bytes = state.pending_bytes.wrapping_add(bytes);
        state.pending_blocks = state.pending_blocks.wrapping_add(blocks);
        state.pending_updates = state.pending_updates.wrapping_add(1);
        let mut must_fold = state.pending_bytes.abs() > state.allowance || state.pending_updates >= PENDING_UPDATES_MAX;
        if state.pending_bytes > state.headroom {
            if self.threads.is_single() {
                state.headroom = state.pending_bytes;
                self.note_peak(state);
            }
            // What this thread knows of the others' blocks may be out of date.
            must_fold |= !self.threads.is_single();
        }
        if must_fold {
            self.fold(state, 1);
        }
    }

    /// What the words of a record hold.
    #[inline(always)]
    pub(crate) fn words_of(&self, slot: Slot, order: Ordering) -> [u64; RECORD_WORDS] {
        let [commit, address, size, time] = self.record(slot);
        [commit.load(order), address.load(order), size.load(order), time.load(order)]
    }

    /// The words of a record.
    #[inline(always)]
    pub fn record(&self, slot: Slot) -> &[AtomicU64; RECORD_WORDS] {
        self.ledger().section(SectionKind::Records).element(u64::from(slot.0))
    }
}

impl Figures for Shared {
    fn live(&self) -> &AtomicU64 {
        self.ledger().global(GlobalCounter::LiveBytes)
    }
    fn peak(&self) -> &AtomicU64 {
        self.ledger().global(GlobalCounter::PeakBytes)
    }
    fn error(&self) -> &AtomicU64 {
        self.ledger().global(GlobalCounter::PeakError)
    }
}

impl Addresses for Shared {
    #[inline(always)]
    fn address(&self, slot: Slot) -> u64 {
        self.record(slot)[1].load(Ordering::Acquire) & heapledger_format::record::ADDRESS_MAX
    }

    #[inline(always)]
    fn fetch_soon(&self, slot: Slot) {
        // Where nothing is mapped, a prefetch does nothing.
        self.ledger().section(SectionKind::Records).fetch_soon::<RECORD_WORDS>(u64::from(slot.0));
    }
}

/// Words of a vacant record that link slots. Word 0 is the commit word, word 1 the address, which the
/// index may still read.
impl Vacant for Shared {
    fn next(&self, slot: Slot) -> u64 {
        self.record(slot)[2].load(Ordering::Relaxed)
    }
    fn set_next(&self, slot: Slot, link: u64) {
        self.record(slot)[2].store(link, Ordering::Relaxed);
    }
    fn next_batch(&self, slot: Slot) -> u64 {
        self.record(slot)[3].load(Ordering::Relaxed)
    }
    fn set_next_batch(&self, slot: Slot, link: u64) {
        self.record(slot)[3].store(link, Ordering::Relaxed);
    }
}
