//! Trace windows: what was allocated between two moments that the program chooses, and what became of it.
//!
//! A window has no records of its own. Its blocks are those of the ledger whose numbers lie between its marks; so it costs nothing
//! while it is open. Allocations and frees are what the counters have moved on by; what lives is counted when it is asked for, by a
//! walk through the records. What the highest was in between nobody has seen: the window says the highest that was counted, and
//! by how much that may be too low.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::ledger::CODEC;
use crate::look::huge;
use crate::marks::{self, NewMark, NotTold, own_state, words_of};
use crate::private::{Alone, Table};
use crate::publication;
use crate::shared::Shared;
use crate::texts::TextAt;
use crate::{family, hooks};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use heapledger_format::bytes::WordSize;
use heapledger_format::mark::{MarkKind, Window, WindowMode, WindowState};
use heapledger_format::record::RECORD_WORDS;
use heapledger_format::section::thread;
use heapledger_format::{Entry, GlobalCounter, SectionKind, TallyCounter, ThreadRowPlus1};
use heapledger_linux::token::Token;

/// Most windows of a run.
pub(crate) const WINDOWS_MAX: usize = 256;
/// Words of a window in the ledger.
const WINDOW_WORDS: usize = 15;
/// Where the figures begin in them, which are in the order of [`WindowSums`].
const FIGURES_AT: usize = 4;
/// A window is started and resumed so often at most.
const SPANS_MAX: usize = 32;

/// What is kept of a window beside the ledger: words, at these places.
type Kept = [AtomicU64; KEPT_WORDS];
const STATE: usize = 0;
const THREAD: usize = 1;
/// How many bounds there are: of each time that it was open the number of the mark where that began, and where it ended.
const BOUNDS: usize = 2;
/// What the counters said when it was opened for the last time, and what came together before: [`Totals`].
const OPENED: usize = 3;
const BEFORE: usize = 6;
/// Most bytes that were found to live.
const PEAK: usize = 9;
/// 1: it asks for whole stacks of frees, until it is over.
const WHOLE_FREES: usize = 10;
const BOUNDS_AT: usize = 11;
const KEPT_WORDS: usize = BOUNDS_AT + 2 * SPANS_MAX;

/// All windows of the process.
pub struct Windows {
    kept: Table<[Kept; WINDOWS_MAX]>,
    changing: Token,
}

/// What a window has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WindowSums {
    /// Blocks allocated in it.
    pub allocations: u64,
    /// Frees since it was started, of its blocks or others.
    pub frees: u64,
    /// Bytes asked for in its blocks.
    pub bytes_allocated: u64,
    /// Bytes of its blocks that were freed.
    pub bytes_freed: u64,
    /// Its blocks that live.
    pub live_blocks: u64,
    /// Bytes in these.
    pub live_bytes: u64,
    /// Records that it held at most: of a window without a buffer not known.
    pub peak_records: u64,
    /// Most bytes that were found to live, when somebody asked.
    pub peak_bytes: u64,
    /// By how much there may have been more in between.
    pub peak_error: u64,
}

const FIGURES: usize = size_of::<WindowSums>() / 8;

/// All fields, in the order in which they lie in the ledger.
macro_rules! as_words {
    ($($field:ident),*) => {
        impl WindowSums {
            /// In the order of their fields.
            pub fn words(&self) -> [u64; FIGURES] {
                [$(self.$field),*]
            }

            /// Undoes [`WindowSums::words`].
            pub fn of([$($field),*]: [u64; FIGURES]) -> WindowSums {
                WindowSums { $($field),* }
            }
        }
    };
}

as_words!(
    allocations,
    frees,
    bytes_allocated,
    bytes_freed,
    live_blocks,
    live_bytes,
    peak_records,
    peak_bytes,
    peak_error
);

/// A window that is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct NewWindow<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What readers show of it.
    pub mode: WindowMode,
    /// Whether it is of what the calling thread does.
    pub of_own_thread: bool,
    /// Whether whole stacks of frees are taken until it is over, of all threads.
    pub whole_frees: bool,
}

/// Blocks, bytes and frees, as the counters have them.
#[derive(Clone, Copy, Default)]
struct Totals([u64; 3]);

impl Totals {
    /// Of all threads, or of the one with this row, plus 1.
    fn now(shared: &Shared, row_plus_1: u64) -> Totals {
        let ledger = shared.ledger();
        if let Some(row) = row_plus_1.checked_sub(1) {
            let threads = ledger.section(SectionKind::Threads);
            let first = (row as usize).wrapping_mul(thread::bytes(WordSize::W64) / 8);
            let fields = [thread::allocations, thread::bytes_allocated, thread::frees];
            return Totals(fields.map(|field| threads.word(first.wrapping_add(field(WordSize::W64) / 8))));
        }
        let counters = [TallyCounter::Allocations, TallyCounter::BytesAllocated, TallyCounter::Frees];
        Totals(counters.map(|counter| ledger.total(counter)))
    }

    fn at(kept: &Kept, at: usize) -> Totals {
        Totals([0, 1, 2].map(|index| word(kept, at.wrapping_add(index))))
    }

    fn keep(self, kept: &Kept, at: usize) {
        for (index, value) in (at..).zip(self.0) {
            set(kept, index, value);
        }
    }

    fn and(self, now: Totals, then: Totals) -> Totals {
        let mut sum = self;
        for ((sum, now), then) in sum.0.iter_mut().zip(now.0).zip(then.0) {
            *sum = sum.wrapping_add(now.saturating_sub(then));
        }
        sum
    }
}

fn word(kept: &Kept, at: usize) -> u64 {
    kept.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

fn set(kept: &Kept, at: usize, value: u64) {
    if let Some(word) = kept.get(at) {
        word.store(value, Ordering::Relaxed);
    }
}

impl Windows {
    /// None.
    pub const fn new() -> Windows {
        Windows { kept: Table::new(), changing: Token::new() }
    }

    /// Gives the memory beside the ledger back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.kept.unmap(alone);
    }

    fn kept(&self, row_plus_1: u32) -> Option<&'static Kept> {
        self.kept.get()?.get((row_plus_1 as usize).checked_sub(1)?)
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

/// Opens a window: its row plus 1.
///
/// # Errors
/// If it cannot be; what finds no room is counted.
pub fn start(shared: &'static Shared, new: &NewWindow) -> Result<u32, NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    let thread = if new.of_own_thread {
        own_state(shared)
            .map(|state| state.row_plus_1.get())
            .filter(|row| *row != ThreadRowPlus1::NONE)
            .ok_or(NotTold::NoRoom)
    } else {
        Ok(ThreadRowPlus1::NONE)
    };
    let started = thread.and_then(|thread| open(shared, new, thread));
    if matches!(started, Err(NotTold::NoRoom)) {
        count_apart(shared, TallyCounter::WindowsLost);
    }
    started
}

fn open(shared: &'static Shared, new: &NewWindow, thread: ThreadRowPlus1) -> Result<u32, NotTold> {
    let ledger = shared.ledger();
    let name = shared.texts.enter(ledger, new.name).ok_or(NotTold::NoRoom)?;
    shared.windows.kept.get_or_map().ok_or(NotTold::NoRoom)?;
    let row = ledger.lease(SectionKind::Windows, 1).ok_or(NotTold::NoRoom)?;
    let row_plus_1 = (row as u32).wrapping_add(1);
    let kept = shared.windows.kept(row_plus_1).ok_or(NotTold::NoRoom)?;
    let _changing = shared.windows.changing.take().ok_or(NotTold::Busy)?;
    set(kept, THREAD, thread.0.into());
    if new.whole_frees {
        shared.free_depth.window_opens(shared)?;
    }
    let number = mark(shared, MarkKind::WindowStarts, row_plus_1, new.name, thread).inspect_err(|_| {
        if new.whole_frees {
            shared.free_depth.window_closes(shared);
        }
    })?;
    set(kept, WHOLE_FREES, u64::from(new.whole_frees));
    Totals::now(shared, thread.0.into()).keep(kept, OPENED);
    add_bound(kept, number);
    set(kept, STATE, WindowState::Started as u64);
    let window = Window {
        state: WindowState::Started as u32,
        mode: new.mode as u16,
        name_at: name.at,
        name_bytes: u32::from(name.bytes),
        thread,
        starts: 1,
        ..Window::default()
    };
    let mut bytes = [0; WINDOW_WORDS * 8];
    window.write(CODEC, &mut bytes);
    publication::publish::<WINDOW_WORDS>(ledger.section(SectionKind::Windows).element(row), 0, &words_of(&bytes));
    Ok(row_plus_1)
}

/// Sets a mark of a window; its number.
fn mark(
    shared: &'static Shared,
    kind: MarkKind,
    about: u32,
    name: &[u8],
    thread: ThreadRowPlus1,
) -> Result<u64, NotTold> {
    let row = marks::mark(shared, &NewMark { kind, name, about, of_own_thread: thread != ThreadRowPlus1::NONE })?;
    marks::number_of(shared, row).ok_or(NotTold::Unknown)
}

/// The next bound of the time that it is open.
fn add_bound(kept: &Kept, number: u64) {
    let count = word(kept, BOUNDS);
    set(kept, BOUNDS_AT.wrapping_add(count as usize), number);
    set(kept, BOUNDS, count.wrapping_add(1));
}

/// Pauses a window, resumes or stops it.
///
/// # Errors
/// If there is none, it is of another thread, or is not in the state for that; and as of marks.
pub fn change(shared: &'static Shared, row_plus_1: u32, kind: MarkKind) -> Result<u32, NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let kept = shared.windows.kept(row_plus_1).ok_or(NotTold::Unknown)?;
    let thread = ThreadRowPlus1(word(kept, THREAD) as u32);
    if thread != ThreadRowPlus1::NONE && own_state(shared).is_none_or(|state| state.row_plus_1.get() != thread) {
        return Err(NotTold::Unknown);
    }
    let changing = shared.windows.changing.take().ok_or(NotTold::Busy)?;
    let (started, paused) = (WindowState::Started as u64, WindowState::Paused as u64);
    let now = word(kept, STATE);
    let next = match kind {
        MarkKind::WindowPauses if now == started => WindowState::Paused,
        MarkKind::WindowResumes if now == paused => WindowState::Started,
        MarkKind::WindowStops if now == started || now == paused => WindowState::Stopped,
        _ => return Err(NotTold::Unknown),
    };
    if next == WindowState::Started && word(kept, BOUNDS) as usize >= 2 * SPANS_MAX {
        count_apart(shared, TallyCounter::WindowsLost);
        return Err(NotTold::NoRoom);
    }
    let set_mark = mark(shared, kind, row_plus_1, b"", thread);
    // A window is over, also where its last mark found no room.
    if next != WindowState::Stopped {
        set_mark?;
    }
    let counter = shared.ledger().global(GlobalCounter::NextNumber);
    let number = set_mark.unwrap_or_else(|_| counter.load(Ordering::Acquire));
    let totals = Totals::now(shared, thread.0.into());
    if next == WindowState::Started {
        let frees = word(kept, OPENED.wrapping_add(2));
        totals.keep(kept, OPENED);
        set(kept, OPENED.wrapping_add(2), frees);
        add_bound(kept, number);
    } else if now == started {
        let mut before = Totals::at(kept, BEFORE).and(totals, Totals::at(kept, OPENED));
        before.0[2] = 0; // frees are counted from its start to its end
        before.keep(kept, BEFORE);
        add_bound(kept, number);
    }
    set(kept, STATE, next as u64);
    drop(changing);
    if next == WindowState::Stopped && word(kept, WHOLE_FREES) != 0 {
        shared.free_depth.window_closes(shared);
    }
    note(shared, row_plus_1, &count(shared, kept), next);
    Ok(row_plus_1)
}

/// What a window has seen so far, or until it was stopped.
///
/// # Errors
/// If there is none, or nothing is recorded any more.
pub fn figures(shared: &'static Shared, row_plus_1: u32) -> Result<WindowSums, NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let kept = shared.windows.kept(row_plus_1).ok_or(NotTold::Unknown)?;
    let state = match word(kept, STATE) {
        state if state == WindowState::Started as u64 => WindowState::Started,
        state if state == WindowState::Paused as u64 => WindowState::Paused,
        state if state == WindowState::Stopped as u64 => {
            let row: &[AtomicU64; WINDOW_WORDS] =
                shared.ledger().section(SectionKind::Windows).element(u64::from(row_plus_1).wrapping_sub(1));
            let mut words = [0; FIGURES];
            for (word, noted) in words.iter_mut().zip(row.iter().skip(FIGURES_AT)) {
                *word = noted.load(Ordering::Acquire);
            }
            return Ok(WindowSums::of(words));
        }
        _ => return Err(NotTold::Unknown),
    };
    let figures = count(shared, kept);
    note(shared, row_plus_1, &figures, state);
    Ok(figures)
}

/// Writes figures into the ledger.
fn note(shared: &Shared, row_plus_1: u32, figures: &WindowSums, state: WindowState) {
    let windows = shared.ledger().section(SectionKind::Windows);
    let row: &[AtomicU64; WINDOW_WORDS] = windows.element(u64::from(row_plus_1).wrapping_sub(1));
    for (place, value) in row.iter().skip(FIGURES_AT).zip(figures.words()) {
        place.store(value, Ordering::Relaxed);
    }
    const STATE_MASK: u64 = u32::MAX as u64;
    let stopped = WindowState::Stopped as u64;
    let change = |word: u64| (word & STATE_MASK != stopped).then_some(word & !STATE_MASK | state as u64);
    let [first, ..] = row;
    let _ = first.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
}

fn count(shared: &Shared, kept: &Kept) -> WindowSums {
    let thread = word(kept, THREAD);
    let is_open = word(kept, STATE) == WindowState::Started as u64;
    let opened = Totals::at(kept, OPENED);
    let now = Totals::now(shared, thread);
    let before = Totals::at(kept, BEFORE);
    let Totals([allocations, bytes_allocated, _]) = if is_open { before.and(now, opened) } else { before };
    let frees = now.0[2].saturating_sub(opened.0[2]);
    let (live_blocks, live_bytes) = live(shared, kept);
    let peak = kept.get(PEAK).map_or(0, |peak| peak.fetch_max(live_bytes, Ordering::Relaxed).max(live_bytes));
    // Not more than it has allocated, nor than ever lived at a time.
    let global = |counter| shared.ledger().global(counter).load(Ordering::Relaxed);
    let ever = global(GlobalCounter::PeakBytes).saturating_add(global(GlobalCounter::PeakError));
    WindowSums {
        allocations,
        frees,
        bytes_allocated,
        bytes_freed: bytes_allocated.saturating_sub(live_bytes),
        live_blocks,
        live_bytes,
        peak_records: 0,
        peak_bytes: peak,
        peak_error: bytes_allocated.min(ever).saturating_sub(peak),
    }
}

/// Its name.
pub(crate) fn name_of(shared: &Shared, row_plus_1: u32) -> TextAt {
    let words = shared.ledger().section(SectionKind::Windows);
    let first = (row_plus_1 as usize).wrapping_sub(1).wrapping_mul(WINDOW_WORDS);
    let name = words.word(first.wrapping_add(1));
    TextAt { at: name as u32, bytes: (name >> 32) as u16 }
}

/// Live blocks of a window, and their bytes.
fn live(shared: &Shared, kept: &Kept) -> (u64, u64) {
    let thread = word(kept, THREAD);
    let mut bounds = [u64::MAX; 2 * SPANS_MAX];
    let known = (word(kept, BOUNDS) as usize).min(bounds.len());
    for (place, at) in bounds.iter_mut().zip(BOUNDS_AT..).take(known) {
        *place = word(kept, at);
    }
    let is_its =
        |number: u64| bounds.chunks_exact(2).any(|span| matches!(span, [from, to] if number > *from && number < *to));
    let records = shared.ledger().section(SectionKind::Records);
    let (mut blocks, mut bytes) = (0u64, 0u64);
    for slot in 0..records.used().min(records.backed()) as usize {
        let first = slot.wrapping_mul(RECORD_WORDS);
        let mut words = [0; RECORD_WORDS];
        records.copy_words(first, &mut words);
        fence(Ordering::Acquire);
        let Some(entry) = Entry::unpack(&words).filter(|_| records.word(first) == words[0]) else { continue };
        if is_its(entry.number) && (thread == 0 || entry.thread.map(|row| u64::from(row.0)) == thread.checked_sub(1)) {
            let size = entry.size.or_else(|| huge(shared, entry.number)).unwrap_or(0);
            let weight = entry.weight(shared.settings().sample_rule());
            blocks = blocks.wrapping_add(weight);
            bytes = bytes.wrapping_add(size.wrapping_mul(weight));
        }
    }
    (blocks, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_so_many_words() {
        assert_eq!(Window::bytes(WordSize::W64), WINDOW_WORDS * 8);
        let mut bytes = [0; WINDOW_WORDS * 8];
        Window { state: 1, allocations: 1, peak_error: 9, ..Window::default() }.write(CODEC, &mut bytes);
        let words: [u64; WINDOW_WORDS] = words_of(&bytes);
        assert_eq!((words[FIGURES_AT], words[FIGURES_AT + FIGURES - 1]), (1, 9));
        let mut figures = [0; FIGURES];
        figures.copy_from_slice(&words[FIGURES_AT..FIGURES_AT + FIGURES]);
        assert_eq!(WindowSums::of(figures).words(), figures);
    }
}
