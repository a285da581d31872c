//! What a guard has found, and what the firmware says: errors, with who allocated the block, who freed it, and who was there when it was found.

use super::header::further_word;
use super::memory::{Memory, Table, figure, ones};
use super::plan::FieldPlace;
use super::shape::{Fixed, Shape};
use super::word::Word;
use super::{Caller, ChipLedger};
use heapledger_format::Kind;
use heapledger_format::bytes::ByteOrder;
use heapledger_format::errors::{Direction, ErrorKind, FoundAt, FoundBy, StackTag, Whereabouts};

/// What is wrong.
#[derive(Clone, Copy, Debug)]
pub struct NewError<W = u32> {
    /// That.
    pub kind: ErrorKind,
    /// What showed it.
    pub found_by: FoundBy,
    /// When it was found.
    pub found_at: FoundAt,
    /// What was done.
    pub direction: Option<Direction>,
    /// What the address is.
    pub whereabouts: Option<Whereabouts>,
    /// The function that was called.
    pub called: Kind,
    /// Where.
    pub address: W,
    /// Bytes of it.
    pub bytes: W,
    /// The block; 0: the one that was freed last of those that lay there, if that is known.
    pub block: W,
    /// Bytes that were asked for, if the block is known.
    pub block_bytes: W,
    /// Two numbers that contradict.
    pub operands: [W; 2],
    /// What was there from the address on, and what is: zeros, if nobody knows.
    pub expected: [u8; 8],
    /// That.
    pub found: [u8; 8],
}

/// What the ledger knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKnown {
    /// It lives.
    Live,
    /// It was freed, and nothing lives there.
    Freed,
    /// Nothing.
    Unknown,
}

/// Places of an error in bytes: FORMAT.md, "Errors".
mod at {
    pub(super) const KIND: usize = 0;
    pub(super) const FOUND_BY: usize = 2;
    pub(super) const FOUND_AT: usize = 3;
    pub(super) const DIRECTION: usize = 4;
    pub(super) const WHEREABOUTS: usize = 5;
    pub(super) const GIVEN_BY: usize = 6;
    pub(super) const CALLED: usize = 7;
    pub(super) const HEAP: usize = 8;
    pub(super) const ADDRESS: usize = 16;
    pub(super) const BYTES: usize = 24;
    pub(super) const BLOCK: usize = 32;
    pub(super) const BLOCK_BYTES: usize = 40;
    pub(super) const OPERANDS: usize = 56;
    pub(super) const ALLOCATED: usize = 72;
    pub(super) const FREED: usize = 80;
    pub(super) const REPEATS: usize = 88;
    pub(super) const FIRST_TIME: usize = 96;
    pub(super) const LAST_TIME: usize = 104;
    pub(super) const STACKS: usize = 112;
    pub(super) const STACK_BYTES: usize = 24;
    pub(super) const EXPECTED: usize = 184;
    pub(super) const FOUND: usize = 192;
    /// In a stack.
    pub(super) const SITE: usize = 8;
    pub(super) const THREAD: usize = 12;
    pub(super) const TAG: usize = 16;
}

/// A stack of an error.
#[derive(Clone, Copy)]
struct Stack<W> {
    /// A [`StackTag`]; 0: there is none.
    tag: u16,
    site: W,
    /// Its row plus 1.
    thread: W,
    time: W,
}

/// Stacks of an error, each but the first behind another one.
type Stacks<W> = [Stack<W>; 3];

/// Where an element of a table lies.
type InTable = (Table, u32);

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Enters an error. The same one found again (kind and stacks are) is counted in its element. False if there is no room, which is counted.
    #[inline(never)]
    pub fn error(&mut self, error: &NewError<S::Word>, caller: &Caller<S::Word>) -> bool {
        if !S::HAS_ERRORS {
            return false;
        }
        self.update(|ledger| ledger.enter_error(error, caller))
    }

    /// What is known of the block that begins at an address.
    pub fn known(&self, address: S::Word) -> BlockKnown {
        if self.index_find(address).is_some() {
            return BlockKnown::Live;
        }
        let freed = self.freed_around(address);
        let is_it = freed.is_some_and(|entry| self.figure_in(entry, S::ADDRESS) == address);
        if is_it { BlockKnown::Freed } else { BlockKnown::Unknown }
    }

    /// A block is guarded less than was asked for.
    pub fn count_guarded_less(&mut self) {
        if S::HAS_GUARD {
            self.update(|ledger| ledger.add(further_word::<S>(3), S::Word::cut(1)));
        }
    }

    fn errors() -> Table {
        Table { at: S::errors_at(), words: S::ERROR_WORDS, count: S::errors() }
    }

    fn enter_error(&mut self, error: &NewError<S::Word>, caller: &Caller<S::Word>) -> bool {
        let time = self.time();
        let row = self.row_of(caller.running);
        let site = self.site_of(caller);
        let slot = if error.block == S::Word::ZERO { None } else { self.index_find(error.block) };
        let freed = if slot.is_none() { self.freed_around(error.address) } else { None };
        let known = slot.map(|slot| (Self::records(), slot.0)).or(freed);
        let nothing = Stack { tag: 0, site: S::Word::ZERO, thread: S::Word::ZERO, time: S::Word::ZERO };
        let by = Stack {
            tag: if site.0 == 0 && row.plus_1() == 0 { 0 } else { StackTag::Access as u16 },
            site: S::Word::cut(site.0.into()),
            thread: S::Word::cut(row.plus_1().into()),
            time: at_least_1(time),
        };
        let (mut of_block, mut of_free) = (nothing, nothing);
        if let Some(entry) = known {
            (of_block, of_free) = self.stacks_in(entry, freed.is_some());
        }
        let stacks = match (of_block.tag, of_free.tag) {
            (0, _) => [by, nothing, nothing],
            (_, 0) => [of_block, by, nothing],
            _ => [of_block, of_free, by],
        };
        let used = self.word(S::ERRORS_USED).widen() as u32;
        let count = S::errors();
        for nth in 0..used.min(count) {
            if self.is_same_error(nth, error, &stacks) {
                let again = self.long(nth, at::REPEATS).plus(S::Word::cut(1));
                self.put_long(nth, at::REPEATS, again);
                self.put_long(nth, at::LAST_TIME, by.time);
                return true;
            }
        }
        if used >= count {
            self.add(further_word::<S>(2), S::Word::cut(1));
            return false;
        }
        self.write_facts(used, error, by.time);
        if let Some(entry) = known {
            self.write_block(used, entry, (freed.is_some(), error));
        }
        let mut at = at::STACKS;
        for Stack { tag, site, thread, time } in &stacks {
            self.put_long(used, at, *time);
            self.put_in(used, at.wrapping_add(at::SITE), 4, *site);
            self.put_in(used, at.wrapping_add(at::THREAD), 4, *thread);
            self.put_in(used, at.wrapping_add(at::TAG), 2, S::Word::cut(u64::from(*tag)));
            at = at.wrapping_add(at::STACK_BYTES);
        }
        self.put_in(used, at::KIND, 2, S::Word::cut(error.kind as u64));
        self.set_word(S::ERRORS_USED, S::Word::cut(u64::from(used.wrapping_add(1))));
        true
    }

    /// The stacks of a block that is known, and of its end.
    #[inline(always)]
    fn stacks_in(&self, (table, nth): InTable, is_freed: bool) -> (Stack<S::Word>, Stack<S::Word>) {
        let entry = self.region.element(table, nth);
        let stack = |tag: u16, site: FieldPlace, thread: FieldPlace, time: FieldPlace| {
            let row = figure::<S>(entry, thread);
            let has_row = S::HAS_TASKS && row != ones::<S>(thread.width_bits);
            Stack {
                tag,
                site: figure::<S>(entry, site),
                thread: if has_row { row.plus(S::Word::cut(1)) } else { S::Word::ZERO },
                time: if S::HAS_TIME { at_least_1(figure::<S>(entry, time)) } else { S::Word::ZERO },
            }
        };
        let end = if is_freed && S::HAS_HISTORY { StackTag::Free as u16 } else { 0 };
        (
            stack(StackTag::Allocation as u16, S::SITE, S::THREAD, S::TIME),
            stack(end, S::FREED_SITE, S::FREED_THREAD, S::FREED_TIME),
        )
    }

    #[inline(always)]
    fn is_same_error(&self, nth: u32, error: &NewError<S::Word>, stacks: &Stacks<S::Word>) -> bool {
        let mut at = at::STACKS;
        let mut is_same = self.get_in(nth, at::KIND, 2).widen() == error.kind as u64;
        for Stack { tag, site, .. } in stacks {
            is_same &= self.get_in(nth, at.wrapping_add(at::SITE), 4) == *site;
            is_same &= self.get_in(nth, at.wrapping_add(at::TAG), 2).widen() == u64::from(*tag);
            at = at.wrapping_add(at::STACK_BYTES);
        }
        is_same
    }

    /// What is said of the error itself.
    #[inline(always)]
    fn write_facts(&mut self, nth: u32, error: &NewError<S::Word>, time: S::Word) {
        let byte = |byte: u8| S::Word::cut(byte.into());
        self.put_in(nth, at::FOUND_BY, 1, byte(error.found_by as u8));
        self.put_in(nth, at::FOUND_AT, 1, byte(error.found_at as u8));
        self.put_in(nth, at::DIRECTION, 1, byte(error.direction.map_or(0, |direction| direction as u8)));
        self.put_in(nth, at::WHEREABOUTS, 1, byte(error.whereabouts.map_or(0, |place| place as u8)));
        self.put_in(nth, at::CALLED, 1, byte(error.called.0));
        for (past, (was, is)) in error.expected.iter().zip(&error.found).enumerate() {
            self.put_in(nth, at::EXPECTED.wrapping_add(past), 1, byte(*was));
            self.put_in(nth, at::FOUND.wrapping_add(past), 1, byte(*is));
        }
        let [first, second] = error.operands;
        self.put_long(nth, at::ADDRESS, error.address);
        self.put_long(nth, at::BYTES, error.bytes);
        self.put_long(nth, at::BLOCK, error.block);
        self.put_long(nth, at::BLOCK_BYTES, error.block_bytes);
        self.put_long(nth, at::OPERANDS, first);
        self.put_long(nth, at::OPERANDS.wrapping_add(8), second);
        self.put_long(nth, at::FIRST_TIME, time);
        self.put_long(nth, at::LAST_TIME, time);
    }

    /// What the ledger knows of its block.
    #[inline(always)]
    fn write_block(&mut self, nth: u32, (table, of): InTable, (is_freed, error): (bool, &NewError<S::Word>)) {
        let entry = self.region.element(table, of);
        let [number, kind, heap, freed, address, size] =
            [S::NUMBER, S::KIND, S::HEAP, S::FREED_NUMBER, S::ADDRESS, S::SIZE].map(|place| figure::<S>(entry, place));
        // Numbers are kept with 1 more, there and here.
        self.put_long(nth, at::ALLOCATED, number);
        self.put_in(nth, at::GIVEN_BY, 1, kind);
        if S::HAS_HEAPS {
            self.put_in(nth, at::HEAP, 4, heap.plus(S::Word::cut(1)));
        }
        if is_freed && S::HAS_HISTORY {
            self.put_long(nth, at::FREED, freed);
        }
        if error.block == S::Word::ZERO {
            self.put_long(nth, at::BLOCK, address);
            self.put_long(nth, at::BLOCK_BYTES, size);
        }
    }

    #[inline(never)]
    fn get_in(&self, nth: u32, place: usize, width: usize) -> S::Word {
        self.get_part((Self::errors(), nth), place, width)
    }

    #[inline(never)]
    fn put_in(&mut self, nth: u32, place: usize, width: usize, value: S::Word) {
        self.put_part((Self::errors(), nth), place, width, value);
    }

    /// A place of 8 bytes: where its lower bytes lie, as many as a word has.
    const fn lower(place: usize) -> usize {
        match S::ORDER {
            ByteOrder::Big => place.wrapping_add(8).wrapping_sub(S::WORD_BYTES),
            ByteOrder::Little => place,
        }
    }

    fn long(&self, nth: u32, place: usize) -> S::Word {
        self.get_in(nth, Self::lower(place), S::WORD_BYTES)
    }

    /// Stores a number there.
    fn put_long(&mut self, nth: u32, place: usize, value: S::Word) {
        self.put_in(nth, Self::lower(place), S::WORD_BYTES, value);
    }
}

/// A time as it is written where 0 is none.
fn at_least_1<W: Word>(time: W) -> W {
    if time == W::ZERO { W::cut(1) } else { time }
}
