//! What a ledger is of, as a type: all that follows from it is a constant.

use super::config::Config;
use super::header::{self, UNITS_MAX};
use super::plan::{ERROR_BYTES, FieldPlace, Notes, Plan, SectionPlan, further_count};
use super::room::Room;
use super::word::Word;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::layout::{Field, mask};
use heapledger_format::section::row;
use heapledger_format::{SectionKind, header::counter_at};

/// What ledgers of one kind record, how much they have room for, and with what they are surrounded: fixed when the program is
/// compiled, so that a store into a record is a store. What is left out costs nothing.
///
/// ```
/// use heapledger_recorder::chip::{Clock, Config, Shape};
///
/// /// Who holds which of 100 blocks since when, on a chip with a timer of 24 bits and 1 MHz.
/// struct Board;
///
/// impl Shape for Board {
///     type Word = u32;
///     const CONFIG: Config<'static> =
///         Config { clock: Some(Clock { tick_ns: 1000, bits: 24 }), ..Config::minimal(100, 200) };
///     fn ticks() -> u32 {
///         0 // a register of the timer
///     }
/// }
/// ```
pub trait Shape: Sized + 'static {
    /// The word: as wide as addresses are.
    type Word: Word;
    /// What is recorded, and how much there is room for. What a ledger cannot hold is refused when the program is compiled.
    const CONFIG: Config<'static>;
    /// The byte order of the ledger: that of the machine, unless a test wants another.
    const ORDER: ByteOrder = ByteOrder::NATIVE;
    /// The header as a new ledger has it, see [`header_units`](super::header_units). This one is longer than it need be.
    const HEADER: &'static [u32] = &header::header_units::<Self, UNITS_MAX>();

    /// How much there is room for, where the program tells that when it is linked: `CONFIG` says the most then, for which fields are wide
    /// enough, and has one at least of all that is recorded. What does not agree with the region is not followed outside of it, but makes a
    /// ledger that nobody can read.
    const ROOM: Option<fn() -> &'static Room> = None;

    /// The lowest address of a heap, and one past its highest. That of `CONFIG`, unless the program tells.
    #[inline(always)]
    fn heap_range(nth: u32) -> (u64, u64) {
        Self::CONFIG.heaps.get(nth as usize).map_or((0, 0), |heap| (heap.low, heap.high))
    }
    /// Its name, likewise.
    #[inline(always)]
    fn heap_name(nth: u32) -> &'static [u8] {
        Self::CONFIG.heaps.get(nth as usize).map_or(&[], |heap| heap.name.as_bytes())
    }
    /// What is known of the firmware. That of `CONFIG`, unless the program tells.
    #[inline(always)]
    fn process() -> &'static [u8] {
        Self::CONFIG.process
    }

    /// Errors that there is room for. As `CONFIG` says, unless the program tells: more than none, and no more than that.
    #[inline(always)]
    fn errors() -> u32 {
        Self::CONFIG.errors
    }
    /// The words of the section `guard`, one after another, as FORMAT.md has them: what a new ledger says of the guard.
    #[inline(always)]
    fn guard_word(_nth: usize) -> Self::Word {
        Self::Word::ZERO
    }

    /// The clock. Only asked where times are recorded, and there for each block; to be asked at least once each time round
    /// ([`ChipLedger::note_time`](super::ChipLedger::note_time) if nobody allocates).
    #[inline(always)]
    fn ticks() -> u32 {
        0
    }
    /// The build id that the linker gave the program. Asked for when a ledger begins, if [`Config::build_id_bytes`] says that it is there.
    #[inline(always)]
    fn build_id() -> &'static [u8] {
        &[]
    }
    /// A new ledger is laid out, but for what says that it can be read: what is not known when the program is compiled is stored in it now. The process section
    /// has room for that, if [`Shape::ROOM`] says so.
    #[inline(always)]
    fn laid_out() {}
    /// An update is complete and the busy mark is cleared.
    #[inline(always)]
    fn update_done() {}
    /// The history ring is full: from the next free on, entries are overwritten, oldest first. Called once each time round, so that
    /// a debugger can carry the entries off. The update is complete.
    #[inline(always)]
    fn history_full() {}
    /// So many records are in use, for the first time, as [`Config::warn_records`] says. The update is complete.
    #[inline(always)]
    fn records_scarce() {}
    /// A block found no room and is not in the ledger. The update is complete.
    #[inline(always)]
    fn records_full() {}
    /// A stack found no room: what is kept of it is its innermost frame, if that. The update is under way.
    #[inline(always)]
    fn sites_full() {}
}

/// What follows from a shape.
pub(super) trait Fixed: Shape {
    const PLAN: Plan = {
        assert!(Self::CONFIG.check().is_ok(), "the ledger cannot hold what CONFIG asks for");
        let is_narrow = matches!(Self::Word::SIZE, WordSize::W32);
        assert!(Self::ROOM.is_none() || is_narrow, "a table of codes would be needed");
        Plan::new(&Self::CONFIG, Self::Word::SIZE)
    };
    const WORD_BYTES: usize = Self::Word::SIZE.bytes();
    const RECORD_WORDS: usize = Self::PLAN.fields.record_words;
    const HISTORY_WORDS: usize = Self::PLAN.fields.history_words;
    const NOTES: Notes = Self::PLAN.notes;

    const NUMBER: FieldPlace = Self::PLAN.fields.at(Field::Number);
    const ADDRESS: FieldPlace = Self::PLAN.fields.at(Field::Address);
    const SIZE: FieldPlace = Self::PLAN.fields.at(Field::Size);
    const TIME: FieldPlace = Self::PLAN.fields.at(Field::Time);
    const EXCESS: FieldPlace = Self::PLAN.fields.at(Field::Excess);
    const SITE: FieldPlace = Self::PLAN.fields.at(Field::Site);
    const KIND: FieldPlace = Self::PLAN.fields.at(Field::Kind);
    const THREAD: FieldPlace = Self::PLAN.fields.at(Field::Thread);
    const HEAP: FieldPlace = Self::PLAN.fields.at(Field::Heap);
    const FREED_NUMBER: FieldPlace = Self::PLAN.fields.at(Field::FreedNumber);
    const FREED_TIME: FieldPlace = Self::PLAN.fields.at(Field::FreedTime);
    const FREED_SITE: FieldPlace = Self::PLAN.fields.at(Field::FreedSite);
    const FREED_BY: FieldPlace = Self::PLAN.fields.at(Field::FreedBy);
    const FREED_THREAD: FieldPlace = Self::PLAN.fields.at(Field::FreedThread);

    /// The first section, from its first word on.
    const RECORDS_AT: usize = Self::PLAN.first;
    /// Where words have 64 bits: no program that is linked with a library has any.
    const CODES: SectionPlan = Self::PLAN.section(SectionKind::Pcs);
    const SITE_BYTES: usize = Self::PLAN.section(SectionKind::Sites).element_bytes;
    const TASK_BYTES: usize = Self::PLAN.section(SectionKind::Threads).element_bytes;
    const HEAP_BYTES: usize = Self::PLAN.section(SectionKind::Heaps).element_bytes;

    /// The highest number: plus 1 it is the highest commit word.
    const NUMBER_MAX: u64 = mask(Self::NUMBER.width_bits).wrapping_sub(1);
    const HAS_STACKS: bool = Self::SITE_BYTES != 0;
    const HAS_CODES: bool = Self::CODES.count != 0;
    const HAS_TIME: bool = Self::CONFIG.clock.is_some();
    const HAS_TASKS: bool = Self::TASK_BYTES != 0;
    const HAS_HEAPS: bool = Self::HEAP_BYTES != 0;
    const HAS_HISTORY: bool = Self::CONFIG.history != 0;
    /// Whether somebody may want to know that records are scarce.
    const MAY_WARN: bool = Self::ROOM.is_some() || Self::CONFIG.warn_records != 0;
    const HAS_ERRORS: bool = Self::CONFIG.errors != 0;
    /// Whether there may be errors, or counts of what a guard could not do.
    const HAS_GUARD: bool = further_count(&Self::CONFIG) > 2;
    const IS_WIDE: bool = matches!(Self::Word::SIZE, WordSize::W64);
    /// The words where it is said how many elements are in use.
    const RECORDS_USED: usize = used_word::<Self>(SectionKind::Records);
    const HISTORY_USED: usize = used_word::<Self>(SectionKind::History);
    const TASKS_USED: usize = used_word::<Self>(SectionKind::Threads);
    const ERRORS_USED: usize = used_word::<Self>(SectionKind::Errors);
    /// Words of an error.
    const ERROR_WORDS: usize = ERROR_BYTES.wrapping_shr(Self::WORD_BYTES.trailing_zeros());

    /// How much there is room for, and where. What the compiler knows is a number in an instruction.
    #[inline(always)]
    fn room() -> &'static Room {
        match Self::ROOM {
            Some(told) => told(),
            None => const { &Room::of(&Self::PLAN) },
        }
    }

    /// The first word of the errors: they are behind the further counters.
    #[inline(always)]
    fn errors_at() -> usize {
        let counters = const { (further_count(&Self::CONFIG) as usize).wrapping_mul(2) };
        (Self::room().counters_at as usize).wrapping_add(counters)
    }

    /// That of what is said of the guard.
    #[inline(always)]
    fn guard_at() -> usize {
        Self::errors_at().wrapping_add((Self::errors() as usize).wrapping_mul(Self::ERROR_WORDS))
    }
}

impl<S: Shape> Fixed for S {}

const fn used_word<S: Fixed>(kind: SectionKind) -> usize {
    let word = S::Word::SIZE;
    match S::PLAN.nth(kind) {
        Some(nth) => {
            let row_at = S::PLAN.rows_at.wrapping_add(nth.wrapping_mul(row::bytes(word)));
            row_at.wrapping_add(row::used(word)).wrapping_shr(word.bytes().trailing_zeros())
        }
        None => 0,
    }
}

/// The word of a counter.
pub(super) const fn counter_word(word: WordSize, index: usize) -> usize {
    counter_at(word, index).wrapping_shr(word.bytes().trailing_zeros())
}
