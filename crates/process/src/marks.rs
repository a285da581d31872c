//! Moments that the program names, and the numbers that divide what came before from what came after.
//!
//! A mark of all threads takes a number off the counter and ends what all threads have leased ([`crate::lease`]). So an event that
//! begins after the mark was set has a higher number, and one that had ended before has a lower one. Of a thread in the middle of a
//! call, the call has begun before; what a `realloc` gives when it returns begins then, and is looked at once more.
//!
//! Who sets a mark need not be let in by the guard: all that is changed are words that any thread may change. So a mark can be
//! set in a signal handler that has interrupted a hook. A mark of one thread takes a number of the thread's own lease, for which it
//! must be let in.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign, count_apart};
use crate::family;
use crate::lease;
use crate::ledger::CODEC;
use crate::order::{OLD_LEASE, TRIES};
use crate::publication;
use crate::shared::{Shared, ticks};
use crate::state::ThreadState;
use crate::texts::TextAt;
use crate::windows;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::mark::{Mark, MarkKind, reach};
use heapledger_format::record::{NUMBER_MAX, Options};
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter, ThreadRowPlus1, Ticks};
use heapledger_linux::{apart, syscall};
use heapledger_unwind::Registers;

/// Words of a mark.
const MARK_WORDS: usize = 5;

/// What is kept of the marks beside the ledger.
pub struct Marks {
    /// The number of the last mark of all threads, plus 1.
    last: AtomicU64,
}

/// Why something that the program tells is not in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum NotTold {
    /// Nothing is recorded in this process.
    Off = -1,
    /// There is no room. That was counted.
    NoRoom = -2,
    /// The thread was in the middle of entering something: a signal handler. That was counted.
    Busy = -3,
    /// There is no such thing, or it is over.
    Unknown = -4,
    /// It cannot be.
    Invalid = -5,
    /// It is not so, or is so already.
    NotSo = -8,
    /// It reaches over the edge of another one, or is the same.
    Overlaps = -11,
}

impl NotTold {
    /// As a number for other copies of this code.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// What another copy's answer says, which is 0 or more if all is well.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(answer: i64) -> Result<u32, NotTold> {
        match answer {
            row if row >= 0 => Ok(row as u32),
            -2 => Err(NotTold::NoRoom),
            -3 => Err(NotTold::Busy),
            -4 => Err(NotTold::Unknown),
            -5 => Err(NotTold::Invalid),
            -8 => Err(NotTold::NotSo),
            -11 => Err(NotTold::Overlaps),
            _ => Err(NotTold::Off),
        }
    }
}

/// A mark that is to be set.
#[derive(Clone, Copy, Debug)]
pub struct NewMark<'a> {
    /// What it is.
    pub kind: MarkKind,
    /// Its name; not of a scope's end or of a window that is open, which have the name of their beginning.
    pub name: &'a [u8],
    /// What it belongs to, plus 1.
    pub about: u32,
    /// Whether it divides only what the calling thread does.
    pub of_own_thread: bool,
}

impl Marks {
    /// None.
    pub const fn new() -> Marks {
        Marks { last: AtomicU64::new(0) }
    }

    /// Whether a number was leased before the last mark of all threads.
    #[inline(always)]
    pub(crate) fn is_after(&self, number: u64) -> bool {
        self.last.load(Ordering::Relaxed) > number
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of the calling thread, which gets one if it has none.
pub(crate) fn own_state(shared: &'static Shared) -> Option<&'static ThreadState> {
    if ThreadState::of_this_thread().is_none() {
        let sign = Sign::new();
        let registers = Registers { sp: &raw const sign as u64, ..Registers::default() };
        apart::run(&mut || drop(Access::enter(shared, &registers, &sign)));
    }
    // A thread of a raw `clone` has the word of another one.
    let tid = syscall::gettid();
    ThreadState::of_this_thread().filter(|state| state.tid.get() == tid).or_else(|| shared.threads.by_tid(tid))
}

/// Sets a mark: its row plus 1.
///
/// # Errors
/// If it is not in the ledger.
pub fn mark(shared: &'static Shared, new: &NewMark) -> Result<u32, NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    let state = own_state(shared);
    let sign = Sign::new();
    let registers = Registers { sp: &raw const sign as u64, ..Registers::default() };
    // With signals blocked: a handler would take us for gone, and nothing is left half done.
    let set = apart::result_of(Err(NotTold::NoRoom), || set(shared, state, (&registers, &sign), new));
    if matches!(set, Err(NotTold::NoRoom | NotTold::Busy)) {
        count_apart(shared, TallyCounter::MarksLost);
    }
    set
}

fn set(
    shared: &'static Shared,
    state: Option<&'static ThreadState>,
    (registers, sign): (&Registers, &Sign),
    new: &NewMark,
) -> Result<u32, NotTold> {
    let ledger = shared.ledger();
    let name = match new.kind {
        MarkKind::ScopeEnds => name_of(shared, new.about).ok_or(NotTold::Unknown)?,
        MarkKind::WindowPauses | MarkKind::WindowResumes | MarkKind::WindowStops => windows::name_of(shared, new.about),
        _ => shared.texts.enter(ledger, new.name).ok_or(NotTold::NoRoom)?,
    };
    let row = ledger.lease(SectionKind::Marks, 1).ok_or(NotTold::NoRoom)?;
    let (number, time) = if new.of_own_thread {
        let mut access = Access::enter(shared, registers, sign).map_err(|_| NotTold::Busy)?;
        let number = access.number_from(0).ok_or(NotTold::NoRoom)?;
        (number, if access.state.ticks == Ticks(0) { shared.now() } else { access.state.ticks })
    } else {
        divide(shared).ok_or(NotTold::NoRoom)?
    };
    let mark = Mark {
        number: number.wrapping_add(1),
        time,
        name_at: name.at,
        name_bytes: u32::from(name.bytes),
        thread: state.map_or(ThreadRowPlus1::NONE, |state| state.row_plus_1.get()),
        kind: new.kind as u16,
        reach: if new.of_own_thread { reach::OWN_THREAD } else { reach::ALL_THREADS },
        about: new.about,
        label: state.map_or(0, |state| state.label().0),
    };
    let mut bytes = [0; MARK_WORDS * 8];
    mark.write(CODEC, &mut bytes);
    publication::publish::<MARK_WORDS>(ledger.section(SectionKind::Marks).element(row), 0, &words_of(&bytes));
    Ok((row as u32).wrapping_add(1))
}

/// Divides what all threads have begun so far from what they will begin: the number between, and the time.
fn divide(shared: &Shared) -> Option<(u64, Ticks)> {
    let counter = shared.ledger().global(GlobalCounter::NextNumber);
    // Threads that read no clock look how far the counter is.
    let passed = if shared.settings().options.has(Options::TIME) { 0 } else { OLD_LEASE };
    let (mut tries, mut seen) = (0u32, counter.load(Ordering::Acquire));
    let (number, moment) = loop {
        let moment = shared.clock.moment();
        if seen.wrapping_add(passed).wrapping_add(1) > NUMBER_MAX {
            return None;
        }
        tries = tries.wrapping_add(1);
        match lease::pass(counter, seen, passed, tries >= TRIES) {
            Ok(number) => break (number, moment),
            Err(now) => seen = now,
        }
    };
    shared.threads.end_leases();
    shared.marks.last.fetch_max(number.wrapping_add(1), Ordering::Release);
    if passed != 0
        && let Some(unused) = shared.ledger().apart(TallyCounter::NumbersUnused)
    {
        unused.fetch_add(passed, Ordering::Relaxed);
    }
    Some((number, ticks(moment.ns())))
}

/// The name of a scope that has begun: its row plus 1.
fn name_of(shared: &Shared, row_plus_1: u32) -> Option<TextAt> {
    let marks = shared.ledger().section(SectionKind::Marks);
    let row = u64::from(row_plus_1).checked_sub(1).filter(|row| *row < marks.used())?;
    let words: &[AtomicU64; MARK_WORDS] = marks.element(row);
    let mut bytes = [0; MARK_WORDS * 8];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
    }
    let mark = Mark::read(CODEC, &bytes).filter(|mark| mark.kind == MarkKind::ScopeBegins as u16)?;
    Some(TextAt { at: mark.name_at, bytes: mark.name_bytes as u16 })
}

/// The number of a mark: its row plus 1.
pub(crate) fn number_of(shared: &Shared, row_plus_1: u32) -> Option<u64> {
    let marks = shared.ledger().section(SectionKind::Marks);
    let row = u64::from(row_plus_1).checked_sub(1).filter(|row| *row < marks.used())?;
    let [number, ..]: &[AtomicU64; MARK_WORDS] = marks.element(row);
    number.load(Ordering::Acquire).checked_sub(1)
}

/// The words of an element's bytes.
pub(crate) fn words_of<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == WORDS * 8) };
    let mut words = [0; WORDS];
    let (parts, _) = bytes.as_chunks();
    for (word, part) in words.iter_mut().zip(parts) {
        *word = u64::from_ne_bytes(*part);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::bytes::WordSize;

    #[test]
    fn a_mark_has_so_many_words() {
        assert_eq!(Mark::bytes(WordSize::W64), MARK_WORDS * 8);
        assert_eq!(Mark::commit_at(WordSize::W64), 0);
    }

    #[test]
    fn answers_come_back_as_what_they_were() {
        for told in [NotTold::Off, NotTold::NoRoom, NotTold::Busy, NotTold::Unknown] {
            assert_eq!(NotTold::check(told.number()), Err(told));
        }
        assert_eq!((NotTold::check(7), NotTold::check(0)), (Ok(7), Ok(0)));
        assert_eq!(NotTold::check(-99), Err(NotTold::Off), "of a later version");
    }
}
