//! What was refused or found wrong: the ledger's `errors`, entered on paths on which nobody is in a hurry.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::ledger::{CODEC, Ledger};
use crate::section::Section;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::errors::{ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag};
use heapledger_format::{Kind, SectionKind, Site, TallyCounter, ThreadRow, ThreadRowPlus1, Ticks};
use heapledger_linux::apart;
use heapledger_linux::token::Token;

/// Most errors of a ledger: each was found at another place, and all of them are looked through.
pub(crate) const ERRORS_MAX: u64 = 1024;
/// Bytes of one.
pub(crate) const ERROR_BYTES: usize = 304;
const WORDS: usize = ERROR_BYTES / 8;

/// Words of an error. The first has the commit word.
const REPEATS: usize = 11;
const LAST_TIME: usize = 13;
/// Each with a call site in its lower half: of the first stack, and of the second.
const SITES: [usize; 2] = [15, 18];

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
}

impl Errors {
    pub(crate) const fn new() -> Errors {
        Errors { entering: Token::new() }
    }

    /// Enters an error, or that it was found again. False if there is no room.
    pub(crate) fn enter(&self, ledger: &Ledger, entry: &ErrorEntry) -> bool {
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
        let mut bytes = [0; ERROR_BYTES];
        entry.write(CODEC, &mut bytes);
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
    let [first, second, _] = entry.stacks;
    let is_same = |words: &[AtomicU64; WORDS]| {
        let word = |index: usize| words.get(index).map_or(0, |word| word.load(Ordering::Acquire));
        word(0) as u16 == entry.kind && SITES.map(|index| word(index) as u32) == [first.site.0, second.site.0]
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

    pub(crate) fn count_error(&self, entered: bool) {
        if !entered {
            self.state.count(TallyCounter::ErrorsLost, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::bytes::WordSize;

    #[test]
    fn words_are_where_the_format_has_them() {
        assert_eq!(ErrorEntry::bytes(WordSize::W64), ERROR_BYTES);
        let sites = [Site(77), Site(88)].map(|site| ErrorStack { site, ..ErrorStack::default() });
        let stacks = [sites[0], sites[1], ErrorStack::default()];
        let entry = ErrorEntry { kind: 5, repeats: 66, last_time: Ticks(99), stacks, ..ErrorEntry::default() };
        let mut bytes = [0; ERROR_BYTES];
        assert!(entry.write(CODEC, &mut bytes));
        let word = |index: usize| u64::from_ne_bytes(*bytes[index * 8..].first_chunk().expect("a word"));
        assert_eq!([0, REPEATS, LAST_TIME, SITES[0], SITES[1]].map(word), [5, 66, 99, 77, 88]);
    }
}
