//! What was refused or found wrong: the ledger's `errors`, entered on paths on which nobody is in a hurry.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::breaks::heapledger_error;
use crate::ledger::{CODEC, Ledger};
use crate::section::Section;
use crate::shared::Shared;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::errors::{ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag};
use heapledger_format::{Kind, SectionKind, Site, TallyCounter, ThreadRow, ThreadRowPlus1, Ticks};
use heapledger_linux::token::Token;
use heapledger_linux::{apart, syscall};

/// Most errors of a ledger: each was found at another place, and all of them are looked through.
pub(crate) const ERRORS_MAX: u64 = 1024;
/// Bytes of one.
pub(crate) const ERROR_BYTES: usize = 304;
const WORDS: usize = ERROR_BYTES / 8;

/// Words of an error. The first has the commit word.
const REPEATS: usize = 11;
const LAST_TIME: usize = 13;
/// Each with a call site in its lower half: of each stack.
const SITES: [usize; 3] = [15, 18, 21];

/// A call that gave no block.
#[derive(Clone, Copy, Debug)]
pub struct FailedCall {
    /// Why, as far as its arguments tell.
    pub why: ErrorKind,
    /// The function.
    pub kind: Kind,
    /// Bytes asked for, as far as they can be counted.
    pub size: usize,
    /// Alignment asked for; 0: none.
    pub alignment: usize,
    /// See [`ErrorEntry::operands`].
    pub operands: [usize; 2],
    /// What was to be resized, and is as it was; 0: nothing.
    pub block: usize,
}

impl FailedCall {
    /// Of so many bytes.
    pub fn new(kind: Kind, size: usize, alignment: usize) -> FailedCall {
        FailedCall { why: ErrorKind::FailedAllocation, kind, size, alignment, operands: [0, 0], block: 0 }
    }
}

/// Who enters errors.
pub(crate) struct Errors {
    entering: Token,
    /// Elements that were looked through in vain.
    looked: AtomicU64,
    /// How often somebody looked though the ledger lacks something.
    doubted: AtomicU64,
}

impl Errors {
    pub(crate) const fn new() -> Errors {
        Errors { entering: Token::new(), looked: AtomicU64::new(0), doubted: AtomicU64::new(0) }
    }

    /// Whether anybody may look at all, once more: until `most` elements were looked through in vain, and so many times in doubt (which,
    /// once there, stays).
    pub(crate) fn may_look(&self, most: u64, doubts_max: u64, is_in_doubt: impl FnOnce() -> bool) -> bool {
        if self.looked.load(Ordering::Relaxed) > most || self.doubted.load(Ordering::Relaxed) >= doubts_max {
            return false;
        }
        if is_in_doubt() {
            self.doubted.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Whether so many more elements may be looked through, of `most` in vain; counts them as in vain.
    pub(crate) fn may_look_through(&self, elements: u64, most: u64) -> bool {
        let may = self.looked.load(Ordering::Relaxed) <= most;
        if may {
            self.looked.fetch_add(elements, Ordering::Relaxed);
        }
        may
    }

    /// It was not in vain.
    pub(crate) fn has_found(&self, elements: u64) {
        self.looked.fetch_sub(elements, Ordering::Relaxed);
    }

    /// Enters an error, or that it was found again. False if there is no room.
    pub(crate) fn enter(&self, ledger: &Ledger, entry: &ErrorEntry) -> bool {
        self.enter_with(ledger, entry, (0, &[]))
    }

    /// The same, with memory around what the error is about, and where that begins.
    pub(crate) fn enter_with(&self, ledger: &Ledger, entry: &ErrorEntry, around: (u64, &[u8])) -> bool {
        self.enter_call(ledger, entry, around, b"")
    }

    /// The same, with the name of the function that was called, if it is no kind's.
    pub(crate) fn enter_call(
        &self,
        ledger: &Ledger,
        entry: &ErrorEntry,
        (around, bytes): (u64, &[u8]),
        function: &[u8],
    ) -> bool {
        let section = ledger.section(SectionKind::Errors);
        if found_again(section, entry) {
            return true;
        }
        // Two threads find the same at once.
        let Some(_entering) = self.entering.take() else { return false };
        if found_again(section, entry) {
            return true;
        }
        let Some(row) = ledger.lease(SectionKind::Errors, 1) else { return false };
        let kept = |bytes: &[u8]| {
            let at = (!bytes.is_empty()).then(|| ledger.enter(SectionKind::Strings, bytes)).flatten();
            at.map_or((0, 0), |at| (at as u32, bytes.len() as u32))
        };
        let ((around_at, around_bytes), (function_at, function_bytes)) = (kept(bytes), kept(function));
        let around_address = if around_bytes == 0 { 0 } else { around };
        let told = ErrorEntry { around_address, around_at, around_bytes, function_at, function_bytes, ..*entry };
        let mut bytes = [0; ERROR_BYTES];
        told.write(CODEC, &mut bytes);
        let Some((first, _)) = bytes.split_first_chunk_mut::<8>() else { return false };
        let commit = u64::from_ne_bytes(*first);
        *first = [0; 8];
        section.fill(row, &bytes);
        let [word, ..] = section.element::<WORDS>(row);
        word.store(commit, Ordering::Release);
        true
    }
}

/// If the same error is there already, it was found once more.
fn found_again(section: &Section, entry: &ErrorEntry) -> bool {
    let sites = entry.stacks.map(|stack| stack.site.0);
    let is_same = |words: &[AtomicU64; WORDS]| {
        let word = |index: usize| words.get(index).map_or(0, |word| word.load(Ordering::Acquire));
        word(0) as u16 == entry.kind && SITES.map(|index| word(index) as u32) == sites
    };
    let there = section.used().min(section.backed());
    let known = (0..there).map(|row| section.element::<WORDS>(row)).find(|words| is_same(words));
    if let Some(words) = known
        && let (Some(repeats), Some(last)) = (words.get(REPEATS), words.get(LAST_TIME))
    {
        repeats.fetch_add(1, Ordering::Relaxed);
        last.fetch_max(entry.last_time.0, Ordering::Relaxed);
    }
    known.is_some()
}

/// The program did something wrong. If it is to end with the first such error, it ends here, by SIGABRT; handlers are not asked.
#[cold]
#[inline(never)]
pub(crate) fn halt_if_asked(shared: &Shared) {
    if shared.settings().guard.halts {
        syscall::abort();
    }
}

/// A stack of an error: who was there.
pub(crate) fn stack(tag: StackTag, site: Site, thread: ThreadRow, time: Ticks) -> ErrorStack {
    let thread = if thread == ThreadRow::OTHER { ThreadRowPlus1::NONE } else { thread.into() };
    ErrorStack { time: time.max(Ticks(1)), site, thread, tag: tag as u16, ..ErrorStack::default() }
}

impl Access<'_> {
    /// A call gave no block; `site` is that of the call.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&mut self, refused: &FailedCall, site: Site) {
        let (shared, thread) = (self.shared, self.state.row);
        let label = self.state.thread().label().0;
        let time = shared.now().max(Ticks(1));
        let is_seen = refused.why != ErrorKind::FailedAllocation;
        let entered = apart::result_of(false, || {
            shared.errors.enter(
                shared.ledger(),
                &ErrorEntry {
                    kind: refused.why as u16,
                    found_by: if is_seen { FoundBy::Argument } else { FoundBy::Answer } as u8,
                    found_at: FoundAt::Call as u8,
                    called: refused.kind.0,
                    block: refused.block as u64,
                    block_bytes: refused.size as u64,
                    alignment: refused.alignment as u64,
                    operands: refused.operands.map(|operand| operand as u64),
                    first_time: time,
                    last_time: time,
                    stacks: [stack(StackTag::Access, site, thread, time), ErrorStack::default(), ErrorStack::default()],
                    label,
                    ..ErrorEntry::default()
                },
            )
        });
        self.count_error(entered);
    }

    /// What follows something that the program did wrong.
    pub(crate) fn count_wrong(&self, entered: bool) {
        self.count_error(entered);
        halt_if_asked(self.shared);
    }

    /// What follows an error that was entered, or not for lack of room.
    pub(crate) fn count_error(&self, entered: bool) {
        if entered {
            heapledger_error();
        } else {
            self.state.count(TallyCounter::ErrorsLost, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::bytes::WordSize;

    #[test]
    fn nobody_looks_without_end() {
        let errors = Errors::new();
        // A ledger that has everything: until too much was looked through in vain.
        assert!((0..100).all(|_| errors.may_look(1000, 3, || false)));
        assert!(errors.may_look_through(600, 1000));
        errors.has_found(600);
        assert!(errors.may_look_through(600, 1000) && errors.may_look(1000, 3, || false));
        assert!(errors.may_look_through(600, 1000) && !errors.may_look(1000, 3, || false));
        assert!(!errors.may_look_through(1, 1000));
        // One that lacks something: a few times.
        let errors = Errors::new();
        assert!((0..3).all(|_| errors.may_look(1000, 3, || true)));
        assert!(!errors.may_look(1000, 3, || unreachable!("nobody is asked any more")));
    }

    #[test]
    fn words_are_where_the_format_has_them() {
        assert_eq!(ErrorEntry::bytes(WordSize::W64), ERROR_BYTES);
        let stacks = [Site(77), Site(88), Site(99)].map(|site| ErrorStack { site, ..ErrorStack::default() });
        let entry = ErrorEntry { kind: 5, repeats: 66, last_time: Ticks(111), stacks, ..ErrorEntry::default() };
        let mut bytes = [0; ERROR_BYTES];
        assert!(entry.write(CODEC, &mut bytes));
        let word = |index: usize| u64::from_ne_bytes(*bytes[index * 8..].first_chunk().expect("a word"));
        assert_eq!([0, REPEATS, LAST_TIME].map(word), [5, 66, 111]);
        assert_eq!(SITES.map(word), [77, 88, 99]);
    }
}
