//! Counting calls: figures of each thread, summed when they are read, and live bytes of all.
//!
//! Each thread has a cell of its own, in which only it writes, so that a call costs one addition that threads share: that to the
//! live bytes of all, from which their peak follows. A cell goes over to another thread when its own has ended; then it counts
//! on, and the thread remembers from where. Where all cells are taken, threads share one.
//!
//! A thread's live bytes are what it allocated less what it freed; they can be less than nothing.

use crate::Stats;
use crate::live;
use crate::state::{self, Want};
use crate::thread_word;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Threads with a cell of their own at the same time.
const CELLS: usize = 1024;
/// Regions of one thread that may be open at the same time.
const LEVELS: usize = 32;
/// Cells of ended threads are looked for among so many.
const LOOKED_AT: usize = 16;
/// The word of a thread for which there was no cell.
const NO_CELL: usize = usize::MAX;

const ALLOCATIONS: usize = 0;
const ALLOCATED_BYTES: usize = 1;
const FREES: usize = 2;
const FREED_BYTES: usize = 3;
const FAILURES: usize = 4;

/// What one thread has done. (Where a word has 32 bits, sums of bytes do, too.) Its size is a power of two, for speed.
#[repr(align(512))]
struct Cell {
    figures: [AtomicUsize; 5],
    /// Highest live bytes since the innermost open region of the thread began.
    highest: AtomicUsize,
    /// How many regions are open.
    level: AtomicUsize,
    /// Which of them have ended although one within is open; a bit each.
    ended: AtomicU32,
    /// The thread.
    owner: AtomicU32,
    /// [`Cell::figures`] when it took the cell.
    before: [AtomicUsize; 5],
    /// [`Cell::highest`] of each level when the next one began.
    outer: [AtomicUsize; LEVELS],
}

static CELLS_OF_THREADS: [Cell; CELLS] = [const { Cell::new() }; CELLS];
/// That of all threads for which there is none.
static SHARED: Cell = Cell::new();
/// How many cells were ever taken, or more.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The process in which cells began to be taken: a forked child has the cells of threads that it has not.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether calls are counted from the first on.
static COUNTS_ALL: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn get(word: &AtomicUsize) -> usize {
    word.load(Ordering::Relaxed)
}

/// Of a word in which only this thread writes. (One instruction on most machines, so that no signal comes in between.)
#[inline(always)]
fn add(word: &AtomicUsize, more: usize) {
    word.store(get(word).wrapping_add(more), Ordering::Relaxed);
}

impl Cell {
    const fn new() -> Cell {
        Cell {
            figures: [const { AtomicUsize::new(0) }; 5],
            highest: AtomicUsize::new(0),
            level: AtomicUsize::new(0),
            ended: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            before: [const { AtomicUsize::new(0) }; 5],
            outer: [const { AtomicUsize::new(0) }; LEVELS],
        }
    }

    /// Live bytes, modulo the word.
    #[inline(always)]
    fn live(&self) -> usize {
        get(&self.figures[ALLOCATED_BYTES]).wrapping_sub(get(&self.figures[FREED_BYTES]))
    }

    #[inline(always)]
    fn note_highest(&self) {
        let live = self.live();
        if live as isize > get(&self.highest) as isize {
            self.highest.store(live, Ordering::Relaxed);
        }
    }

    /// The thread that now has it begins.
    fn begin(&self, thread: u32) {
        for (before, figure) in self.before.iter().zip(&self.figures) {
            before.store(get(figure), Ordering::Relaxed);
        }
        self.highest.store(self.live(), Ordering::Relaxed);
        self.level.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
        self.owner.store(thread, Ordering::Release);
    }

    /// Since some moment, with its highest live bytes.
    fn since(&self, before: &[usize; 5], highest: usize) -> Stats {
        let [allocations, allocated, frees, freed, failures] = before;
        let figure = |index: usize, before: &usize| self.figures.get(index).map_or(0, get).wrapping_sub(*before) as u64;
        let begun = allocated.wrapping_sub(*freed);
        Stats {
            allocations: figure(ALLOCATIONS, allocations),
            allocated_bytes: figure(ALLOCATED_BYTES, allocated),
            frees: figure(FREES, frees),
            freed_bytes: figure(FREED_BYTES, freed),
            failures: figure(FAILURES, failures),
            peak_bytes: (highest.wrapping_sub(begun) as isize).max(0) as u64,
        }
    }

    fn figures(&self) -> [usize; 5] {
        core::array::from_fn(|index| self.figures.get(index).map_or(0, get))
    }

    /// Highest live bytes since the region of this level began.
    fn highest_of(&self, level: usize) -> usize {
        let open = get(&self.level);
        let inner = self.outer.get(level..open).unwrap_or(&[]);
        inner.iter().map(get).fold(get(&self.highest), highest)
    }

    /// Begins a region. Its level is 1 or more.
    fn begin_region(&self) -> Option<usize> {
        let level = get(&self.level);
        self.outer.get(level)?.store(get(&self.highest), Ordering::Relaxed);
        let level = level.wrapping_add(1);
        self.highest.store(self.live(), Ordering::Relaxed);
        self.level.store(level, Ordering::Relaxed);
        Some(level)
    }

    /// Ends the region of this level; if one within is open, when that ends.
    fn end_region(&self, level: usize) {
        let bit = |level: usize| 1u32.wrapping_shl(level.wrapping_sub(1) as u32);
        let mut ended = self.ended.load(Ordering::Relaxed) | bit(level);
        let mut open = get(&self.level);
        while open > 0 && ended & bit(open) != 0 {
            ended &= !bit(open);
            open = open.wrapping_sub(1);
            let outer = self.outer.get(open).map_or(0, get);
            self.highest.store(highest(get(&self.highest), outer), Ordering::Relaxed);
        }
        self.level.store(open, Ordering::Relaxed);
        self.ended.store(ended, Ordering::Relaxed);
    }
}

fn highest(one: usize, other: usize) -> usize {
    (one as isize).max(other as isize) as usize
}

/// The calling thread's cell, if it has one or can get one.
fn own() -> Option<&'static Cell> {
    let word = thread_word::get();
    match CELLS_OF_THREADS.get(word.wrapping_sub(1)) {
        Some(cell) => Some(cell),
        None if word == 0 => take(),
        None => None,
    }
}

/// A cell for a thread that has none.
#[cold]
#[inline(never)]
fn take() -> Option<&'static Cell> {
    let (thread, process) = thread_word::thread_and_process()?;
    // A handler of a signal that comes now counts with those for whom there is no cell.
    thread_word::set(NO_CELL);
    let _ = PROCESS.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
    let next = TAKEN.fetch_add(1, Ordering::Relaxed);
    let index = if next < CELLS { Some(next) } else { take_over(next, thread, process) }?;
    let cell = CELLS_OF_THREADS.get(index)?;
    cell.begin(thread);
    thread_word::set(index.wrapping_add(1));
    Some(cell)
}

/// The cell of a thread that has ended.
fn take_over(from: usize, thread: u32, process: u32) -> Option<usize> {
    if PROCESS.load(Ordering::Relaxed) != process {
        return None;
    }
    (0..LOOKED_AT).map(|step| from.wrapping_mul(LOOKED_AT).wrapping_add(step) % CELLS).find(|index| {
        CELLS_OF_THREADS.get(*index).is_some_and(|cell| {
            let owner = cell.owner.load(Ordering::Acquire);
            owner != 0
                && thread_word::has_ended(process, owner)
                && cell.owner.compare_exchange(owner, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    })
}

/// The calling thread's cell, if it has one already: what nearly every call meets.
#[inline(always)]
fn known() -> Option<&'static Cell> {
    CELLS_OF_THREADS.get(thread_word::get().wrapping_sub(1))
}

/// The kernel's number of the calling thread, if it has a cell or can get one, and cells are of this process.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn thread_of(process: u32) -> Option<u32> {
    let cell = own()?;
    (PROCESS.load(Ordering::Relaxed) == process).then(|| cell.owner.load(Ordering::Relaxed))
}

/// Adds to two figures of a thread that has no cell yet, or can have none.
#[cold]
#[inline(never)]
fn note_elsewhere(more: [(usize, usize); 2]) {
    let cell = own();
    for (figure, more) in more {
        let Some(word) = cell.unwrap_or(&SHARED).figures.get(figure) else { continue };
        match cell {
            Some(_) => add(word, more),
            None => _ = word.fetch_add(more, Ordering::Relaxed),
        }
    }
    if let Some(cell) = cell {
        cell.note_highest();
    }
}

#[inline(always)]
fn note_allocation(bytes: usize) {
    match known() {
        Some(cell) => {
            add(&cell.figures[ALLOCATIONS], 1);
            add(&cell.figures[ALLOCATED_BYTES], bytes);
            cell.note_highest();
        }
        None => note_elsewhere([(ALLOCATIONS, 1), (ALLOCATED_BYTES, bytes)]),
    }
}

#[inline(always)]
fn note_free(bytes: usize) {
    match known() {
        Some(cell) => {
            add(&cell.figures[FREES], 1);
            add(&cell.figures[FREED_BYTES], bytes);
        }
        None => note_elsewhere([(FREES, 1), (FREED_BYTES, bytes)]),
    }
}

/// A call gave a block.
#[inline(always)]
pub fn allocated(bytes: usize) {
    note_allocation(bytes);
    live::grow(bytes);
}

/// A call gave none.
#[cold]
#[inline(never)]
pub fn failed() {
    note_elsewhere([(FAILURES, 1), (FAILURES, 0)]);
}

/// A block is given back.
#[inline(always)]
pub fn freed(bytes: usize) {
    note_free(bytes);
    live::shrink(bytes);
}

/// A block is another one now: one call that gave, and one block given back.
#[inline(always)]
pub fn resized(old_bytes: usize, new_bytes: usize) {
    note_free(old_bytes);
    note_allocation(new_bytes);
    if new_bytes >= old_bytes {
        live::grow(new_bytes.wrapping_sub(old_bytes));
    } else {
        live::shrink(old_bytes.wrapping_sub(new_bytes));
    }
}

/// The same for entries, after calls of programs that are only counted. Returns the block.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub extern "C" fn gave(bytes: usize, block: usize) -> usize {
    match block {
        0 => failed(),
        _ => allocated(bytes),
    }
    block
}

/// The same of a block that is given back: see [`gave`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub extern "C" fn frees(bytes: usize) {
    freed(bytes);
}

/// See [`gave`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub extern "C" fn gave_anew(old_bytes: usize, new_bytes: usize, block: usize) -> usize {
    match block {
        0 => failed(),
        _ => resized(old_bytes, new_bytes),
    }
    block
}

/// Calls are counted from now on, for good: the first one is about to be made.
pub fn count_all() {
    if state::join(Want::Counted) {
        COUNTS_ALL.store(true, Ordering::Release);
    }
}

/// Figures of all threads, since calls are counted.
pub fn sums() -> [usize; 5] {
    let taken = TAKEN.load(Ordering::Acquire).min(CELLS);
    let cells = CELLS_OF_THREADS.get(..taken).unwrap_or(&[]).iter().chain([&SHARED]);
    let mut sums = [0usize; 5];
    // Frees first: so there are never more of them than allocations, which may be counted on meanwhile.
    for index in [FREES, FREED_BYTES, ALLOCATIONS, ALLOCATED_BYTES, FAILURES] {
        let figures = cells.clone().filter_map(|cell| cell.figures.get(index));
        if let Some(sum) = sums.get_mut(index) {
            *sum = figures.map(get).fold(0, usize::wrapping_add);
        }
    }
    sums
}

/// What all have done since `before`.
pub fn sums_since(before: &[usize; 5], peak_bytes: u64) -> Stats {
    let now = sums();
    let [allocations, allocated_bytes, frees, freed_bytes, failures] =
        core::array::from_fn(|index| match (now.get(index), before.get(index)) {
            (Some(now), Some(before)) => now.wrapping_sub(*before) as u64,
            _ => 0,
        });
    Stats { allocations, allocated_bytes, frees, freed_bytes, failures, peak_bytes }
}

/// Whether calls are counted from the first on.
pub fn counts_all() -> bool {
    COUNTS_ALL.load(Ordering::Acquire)
}

/// What the calling thread has done since it began, if there is a place for that.
pub fn of_thread() -> Option<Stats> {
    let cell = own()?;
    let before = core::array::from_fn(|index| cell.before.get(index).map_or(0, get));
    Some(cell.since(&before, cell.highest_of(0)))
}

/// What a region of the calling thread began with.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    level: usize,
    before: [usize; 5],
}

impl Begun {
    pub(crate) fn into_parts(self) -> (usize, [usize; 5]) {
        (self.level, self.before)
    }

    pub(crate) fn of_parts(level: usize, before: [usize; 5]) -> Begun {
        Begun { level, before }
    }
}

/// Begins a region of the calling thread.
pub fn begin_region() -> Option<Begun> {
    let cell = own()?;
    Some(Begun { level: cell.begin_region()?, before: cell.figures() })
}

/// What the calling thread has done since then.
pub fn region(begun: &Begun) -> Stats {
    own().map_or(Stats::default(), |cell| cell.since(&begun.before, cell.highest_of(begun.level)))
}

/// It is over.
pub fn end_region(begun: &Begun) {
    if let Some(cell) = own() {
        cell.end_region(begun.level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gives(cell: &Cell, bytes: usize) {
        add(&cell.figures[ALLOCATIONS], 1);
        add(&cell.figures[ALLOCATED_BYTES], bytes);
        cell.note_highest();
    }

    fn takes_back(cell: &Cell, bytes: usize) {
        add(&cell.figures[FREES], 1);
        add(&cell.figures[FREED_BYTES], bytes);
    }

    fn begin(cell: &Cell) -> Begun {
        Begun { level: cell.begin_region().expect("a level"), before: cell.figures() }
    }

    fn peak(cell: &Cell, begun: &Begun) -> u64 {
        cell.since(&begun.before, cell.highest_of(begun.level)).peak_bytes
    }

    #[test]
    fn each_region_has_its_own_peak() {
        let cell = Cell::new();
        gives(&cell, 1000);
        takes_back(&cell, 900);
        let outer = begin(&cell);
        gives(&cell, 500);
        takes_back(&cell, 500);
        let inner = begin(&cell);
        assert_eq!((peak(&cell, &outer), peak(&cell, &inner)), (500, 0));
        takes_back(&cell, 100);
        gives(&cell, 50);
        assert_eq!((peak(&cell, &outer), peak(&cell, &inner)), (500, 0), "less than at the beginning");
        gives(&cell, 750);
        assert_eq!((peak(&cell, &outer), peak(&cell, &inner)), (700, 700));
        cell.end_region(inner.level);
        assert_eq!(peak(&cell, &outer), 700);
        cell.end_region(outer.level);
        assert_eq!((get(&cell.level), cell.highest_of(0)), (0, 1000));
    }

    #[test]
    fn regions_end_in_any_order() {
        let cell = Cell::new();
        let regions: [Begun; 3] = core::array::from_fn(|_| begin(&cell));
        gives(&cell, 10);
        cell.end_region(regions[0].level);
        gives(&cell, 20);
        cell.end_region(regions[1].level);
        assert_eq!((peak(&cell, &regions[2]), get(&cell.level)), (30, 3));
        cell.end_region(regions[2].level);
        assert_eq!((get(&cell.level), cell.ended.load(Ordering::Relaxed), cell.highest_of(0)), (0, 0, 30));
    }

    #[test]
    fn there_are_so_many_regions_and_no_more() {
        let cell = Cell::new();
        let regions: std::vec::Vec<Begun> = (0..LEVELS).map(|_| begin(&cell)).collect();
        assert_eq!(cell.begin_region(), None);
        gives(&cell, 7);
        assert!(regions.iter().all(|begun| peak(&cell, begun) == 7));
        regions.iter().rev().for_each(|begun| cell.end_region(begun.level));
        assert_eq!(get(&cell.level), 0);
    }

    #[test]
    fn who_takes_a_cell_over_begins_at_nothing() {
        let cell = Cell::new();
        gives(&cell, 100);
        cell.begin(7);
        let before = core::array::from_fn(|index| get(&cell.before[index]));
        assert_eq!(cell.since(&before, cell.highest_of(0)), Stats::default());
        gives(&cell, 5);
        takes_back(&cell, 100);
        let stats = cell.since(&before, cell.highest_of(0));
        assert_eq!((stats.bytes(), stats.blocks(), stats.peak_bytes), (-95, 0, 5));
    }
}
