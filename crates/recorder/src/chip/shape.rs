//! What a chip's ledger records and where: fixed when it is compiled, but for how many there is room for.

use super::word::Word;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::header::{counter_at, rows_at};
use heapledger_format::layout::{Descriptor, Field};
use heapledger_format::record::Options;
use heapledger_format::section::row;
use heapledger_format::{GlobalCounter, TallyCounter};

/// What ledgers of one kind record, and with what they are surrounded: fixed when the program is compiled, so that a store into
/// a record is a store. What is left out costs nothing.
///
/// ```
/// use heapledger_format::record::Options;
/// use heapledger_recorder::chip::Shape;
///
/// /// Who holds which block since when, on a chip with a timer.
/// struct Board;
///
/// impl Shape for Board {
///     type Word = u32;
///     const OPTIONS: Options = Options(Options::STACK | Options::TIME);
///     fn ticks() -> u32 {
///         0 // a register of the timer
///     }
/// }
/// ```
pub trait Shape: 'static {
    /// The word: as wide as addresses are.
    type Word: Word;
    /// What is recorded beside address, size, number and function.
    const OPTIONS: Options = Options(Options::STACK);
    /// Most live blocks that a ledger of this shape may have room for. Up to 65,534 the index has cells of two bytes.
    const RECORDS_MAX: u32 = 0xFFFE;
    /// Most nodes of the trie of call sites. How many bits a record has for its site follows.
    const SITES_MAX: u32 = 1 << 16;
    /// Most tasks with a row.
    const TASKS_MAX: u32 = 0xFF;
    /// Most heaps.
    const HEAPS_MAX: u32 = 16;
    /// The byte order of the ledger: that of the machine, unless a test wants another.
    const ORDER: ByteOrder = ByteOrder::NATIVE;

    /// A clock that counts up and goes round at the end of its 32 bits; asked at least once each time round, it never runs backwards
    /// in the ledger. Only asked where time is recorded.
    #[inline(always)]
    fn ticks() -> u32 {
        0
    }
    /// An update is complete and the busy mark is cleared.
    #[inline(always)]
    fn update_done() {}
    /// The history ring is full: from the next free on, entries are overwritten, oldest first. Called once each time round, so that
    /// a debugger can carry the entries off.
    #[inline(always)]
    fn history_full() {}
}

/// Where a field lies in a record or a history entry.
#[derive(Clone, Copy)]
pub(super) struct FieldPlace {
    /// Its word.
    pub(super) word: usize,
    /// Its lowest bit there.
    pub(super) shift: u32,
    /// Its bits; 0: it is not recorded.
    pub(super) width_bits: u8,
}

impl FieldPlace {
    const NONE: FieldPlace = FieldPlace { word: 0, shift: 0, width_bits: 0 };
}

/// Fields of a history entry, those of the record in it included.
const FIELDS: usize = 14;

/// The fields of a shape.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// In the order of the descriptors.
    wanted: [(Field, FieldPlace); FIELDS],
    pub(super) record_words: usize,
    pub(super) history_words: usize,
    word_bits: u32,
}

/// Bits that the numbers 0 to `max` need; at least 1.
const fn bits(max: u32) -> u8 {
    if max == 0 { 1 } else { u32::BITS.wrapping_sub(max.leading_zeros()) as u8 }
}

impl Fields {
    /// Puts each field that is wanted into the first word with room for it, those of a history entry behind the record.
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    const fn of<S: Shape>() -> Fields {
        const HISTORY: u32 = Options::HISTORY;
        let is_wide = matches!(S::Word::SIZE, WordSize::W64);
        let word_bits = if is_wide { 64 } else { 32 };
        let (word, time, number) = if is_wide { (48, 44, 48) } else { (32, 32, 32) };
        let site = bits(S::SITES_MAX.saturating_sub(1));
        // All ones stand for a task without a row.
        let task = bits(S::TASKS_MAX);
        let heap = bits(S::HEAPS_MAX.saturating_sub(1));
        // The widest first: then, where words have 32 bits, the order of the fields is also their place.
        let fields = [
            (Field::Number, number, 0),
            (Field::Address, word, 0),
            (Field::Size, word, 0),
            (Field::Time, time, Options::TIME),
            (Field::Excess, 16, Options::ACTUAL_SIZE),
            (Field::Site, site, Options::STACK),
            (Field::Kind, 6, 0),
            (Field::Thread, task, Options::THREAD),
            (Field::Heap, heap, Options::HEAP),
            (Field::FreedNumber, number, HISTORY),
            (Field::FreedTime, time, HISTORY | Options::TIME),
            (Field::FreedSite, site, HISTORY | Options::STACK),
            (Field::FreedBy, 6, HISTORY),
            (Field::FreedThread, task, HISTORY | Options::THREAD),
        ];
        let mut wanted = [(Field::Number, FieldPlace::NONE); FIELDS];
        let mut used = [0u8; FIELDS];
        let (mut first, mut words, mut record_words, mut at) = (0, 0, 0, 0usize);
        while at < FIELDS {
            let (field, width_bits, needs) = fields[at];
            if matches!(field, Field::FreedNumber) {
                (record_words, first) = (words, words);
            }
            wanted[at].0 = field;
            if S::OPTIONS.0 & needs == needs {
                let mut word = first;
                while used[word].wrapping_add(width_bits) > word_bits {
                    word = word.wrapping_add(1);
                }
                wanted[at].1 = FieldPlace { word, shift: used[word] as u32, width_bits };
                used[word] = used[word].wrapping_add(width_bits);
                if word >= words {
                    words = word.wrapping_add(1);
                }
            }
            at = at.wrapping_add(1);
        }
        Fields { wanted, record_words, history_words: words, word_bits: word_bits as u32 }
    }

    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    const fn at(&self, field: Field) -> FieldPlace {
        let mut at = 0usize;
        while at < FIELDS {
            if self.wanted[at].0 as u8 == field as u8 {
                return self.wanted[at].1;
            }
            at = at.wrapping_add(1);
        }
        FieldPlace::NONE
    }

    const fn count(&self) -> usize {
        let (mut at, mut count) = (0usize, 0usize);
        while at < FIELDS {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            let is_recorded = self.wanted[at].1.width_bits != 0;
            count = count.wrapping_add(is_recorded as usize);
            at = at.wrapping_add(1);
        }
        count
    }

    /// What the header says of them.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = Descriptor> + '_ {
        self.wanted.iter().filter(|(_, place)| place.width_bits != 0).map(|(field, place)| Descriptor {
            field: *field as u8,
            width_bits: place.width_bits,
            at_bit: (place.word as u16).wrapping_mul(self.word_bits as u16).wrapping_add(place.shift as u16),
        })
    }
}

/// What follows from a shape: constants, all of them.
pub(super) trait Fixed: Shape + Sized {
    const WORD_BYTES: usize = Self::Word::SIZE.bytes();
    const FIELDS: Fields = Fields::of::<Self>();
    const DESCRIPTORS: usize = Self::FIELDS.count();
    const RECORD_WORDS: usize = Self::FIELDS.record_words;
    const HISTORY_WORDS: usize = Self::FIELDS.history_words;

    const NUMBER: FieldPlace = Self::FIELDS.at(Field::Number);
    const ADDRESS: FieldPlace = Self::FIELDS.at(Field::Address);
    const SIZE: FieldPlace = Self::FIELDS.at(Field::Size);
    const TIME: FieldPlace = Self::FIELDS.at(Field::Time);
    const EXCESS: FieldPlace = Self::FIELDS.at(Field::Excess);
    const SITE: FieldPlace = Self::FIELDS.at(Field::Site);
    const KIND: FieldPlace = Self::FIELDS.at(Field::Kind);
    const THREAD: FieldPlace = Self::FIELDS.at(Field::Thread);
    const HEAP: FieldPlace = Self::FIELDS.at(Field::Heap);
    const FREED_NUMBER: FieldPlace = Self::FIELDS.at(Field::FreedNumber);
    const FREED_TIME: FieldPlace = Self::FIELDS.at(Field::FreedTime);
    const FREED_SITE: FieldPlace = Self::FIELDS.at(Field::FreedSite);
    const FREED_BY: FieldPlace = Self::FIELDS.at(Field::FreedBy);
    const FREED_THREAD: FieldPlace = Self::FIELDS.at(Field::FreedThread);

    /// The highest number: plus 1 it is the highest commit word.
    const NUMBER_MAX: u64 = heapledger_format::layout::mask(Self::NUMBER.width_bits).wrapping_sub(1);
    const HAS_STACKS: bool = Self::OPTIONS.has(Options::STACK);
    const HAS_TIME: bool = Self::OPTIONS.has(Options::TIME);
    const HAS_TASKS: bool = Self::OPTIONS.has(Options::THREAD);
    const HAS_HISTORY: bool = Self::OPTIONS.has(Options::HISTORY);
    const HAS_HEAPS: bool = Self::OPTIONS.has(Options::HEAP);
    /// Nodes of the trie have room for 32 bits: wider code addresses lie in a table of their own.
    const HAS_CODES: bool = Self::HAS_STACKS && matches!(Self::Word::SIZE, WordSize::W64);
    const CELL_BYTES: usize = if Self::RECORDS_MAX < 0xFFFF { 2 } else { 4 };

    /// A debugger that carries the history off notes how far it came.
    const GLOBALS: usize = if Self::HAS_HISTORY { GlobalCounter::HISTORY_COUNT } else { GlobalCounter::SMALL_COUNT };
    /// Counters above can only move in a ledger that has what they count.
    const COUNTERS: usize = {
        let last = if Self::HAS_TASKS { TallyCounter::ThreadsUnnamed } else { TallyCounter::FailedCalls };
        Self::GLOBALS.wrapping_add(last as usize).wrapping_add(1)
    };
    const DESCRIPTORS_AT: usize = counter_at(Self::Word::SIZE, Self::COUNTERS);
    const ROWS_AT: usize = rows_at(Self::Word::SIZE, Self::COUNTERS, Self::DESCRIPTORS);
    const ROW_BYTES: usize = row::bytes(Self::Word::SIZE);
    /// Where it is said how many elements are in use of the sections whose elements are handed out one by one.
    const RECORDS_USED_AT: usize = Self::ROWS_AT.wrapping_add(row::used(Self::Word::SIZE));
    const HISTORY_USED_AT: usize = Self::RECORDS_USED_AT.wrapping_add(Self::ROW_BYTES);
    const TASKS_USED_AT: usize = {
        // Behind records, history, sites, codes and index.
        let before = 2usize
            .wrapping_add(Self::HAS_HISTORY as usize)
            .wrapping_add(Self::HAS_STACKS as usize)
            .wrapping_add(Self::HAS_CODES as usize);
        Self::RECORDS_USED_AT.wrapping_add(Self::ROW_BYTES.wrapping_mul(before))
    };
}

impl<S: Shape> Fixed for S {}
