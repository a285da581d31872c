//! A ledger that holds nothing yet.
//!
//! The header is reckoned by the compiler and lies in the program's image, without its counters, which are zeros: a new ledger is
//! a copy of it. It is kept in *units*, numbers of 4 bytes, for words of either size.

use super::ChipLedger;
use super::memory::{Memory, Table, half_ordered, ones, ordered, shift};
use super::plan::{BUILD_ID, FURTHER, SECTIONS, SectionPlan, further_count, guard_rows};
use super::shape::{Fixed, Shape, counter_word};
use super::word::Word;
use core::sync::atomic::{Ordering, compiler_fence};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::chip_guard;
use heapledger_format::header::{FIXED_BYTES, MAGIC, State, at};
use heapledger_format::layout::DESCRIPTOR_BYTES;
use heapledger_format::section::{heap, row};
use heapledger_format::{SectionKind, TallyCounter, VERSION};

/// Units before the counters.
const FIXED_UNITS: usize = FIXED_BYTES / 4;
/// Most units of a header without its counters: the fixed part, 14 descriptors, padding, section rows of 40 bytes.
pub(super) const UNITS_MAX: usize = FIXED_UNITS + 15 + SECTIONS * 10;
/// The unit with the busy mark, and the one with the state.
const BUSY_UNIT: usize = at::HEADER_BYTES / 4;
const STATE_UNIT: usize = at::STATE / 4;

/// Units of a header in the making.
struct Units<const N: usize> {
    units: [u32; N],
    order: ByteOrder,
}

impl<const N: usize> Units<N> {
    /// Puts a number of up to 4 bytes, which lies within a unit, at a place in bytes.
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    const fn put(&mut self, place: usize, width: usize, value: u32) {
        let within = place & 3;
        let bytes = match self.order {
            ByteOrder::Little => within,
            ByteOrder::Big => 4usize.wrapping_sub(width).wrapping_sub(within),
        };
        self.units[place / 4] |= value.wrapping_shl((bytes as u32).wrapping_mul(8));
    }

    const fn put_word(&mut self, place: usize, word: WordSize, value: usize) {
        let high = (value as u64 >> 32) as u32;
        match (word, self.order) {
            (WordSize::W32, _) => self.put(place, 4, value as u32),
            (WordSize::W64, ByteOrder::Little) => {
                self.put(place, 4, value as u32);
                self.put(place.wrapping_add(4), 4, high);
            }
            (WordSize::W64, ByteOrder::Big) => {
                self.put(place, 4, high);
                self.put(place.wrapping_add(4), 4, value as u32);
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    const fn put_bytes(&mut self, place: usize, bytes: &[u8]) {
        let mut at = 0usize;
        while at < bytes.len() {
            self.put(place.wrapping_add(at), 1, bytes[at] as u32);
            at = at.wrapping_add(1);
        }
    }
}

/// How many units [`header_units`] has of a shape.
pub const fn header_unit_count<S: Shape>() -> usize {
    let plan = S::PLAN;
    FIXED_UNITS.wrapping_add(plan.header_bytes.wrapping_sub(plan.descriptors_at) / 4)
}

/// The header of a new ledger without its counters: [`Shape::HEADER`]. `N` is [`header_unit_count`], or more.
pub const fn header_units<S: Shape, const N: usize>() -> [u32; N] {
    let (config, plan, word) = (S::CONFIG, S::PLAN, S::Word::SIZE);
    let mut header = Units { units: [0; N], order: S::ORDER };
    header.put_bytes(0, &MAGIC);
    header.put_bytes(at::ID, &config.id);
    header.put(at::BYTE_ORDER, 2, 0x0102);
    header.put(at::VERSION, 1, VERSION as u32);
    header.put(at::WORD, 1, word.bytes() as u32);
    header.put(at::MACHINE, 2, config.machine as u32);
    header.put(at::OPTIONS, 4, config.options().0);
    if let Some(clock) = config.clock {
        header.put(at::TICK_NS, 4, clock.tick_ns);
    }
    header.put(at::HEADER_BYTES, 2, plan.header_bytes as u32);
    header.put(at::DESCRIPTORS, 1, plan.fields.count() as u32);
    header.put(at::COUNTERS, 1, plan.counters as u32);
    header.put(at::SECTIONS, 1, plan.sections as u32);
    header.put(at::STATE, 1, State::Recording as u32);
    header.put(at::DEPTH_LIMIT, 2, config.depth as u32);
    header.put(at::GLOBALS, 1, plan.globals as u32);
    // Behind the counters, which are not in here.
    let mut place = FIXED_BYTES;
    let mut nth = 0usize;
    while let Some(descriptor) = plan.fields.descriptor(nth) {
        header.put(place, 1, descriptor.field as u32);
        header.put(place.wrapping_add(1), 1, descriptor.width_bits as u32);
        header.put(place.wrapping_add(2), 2, descriptor.at_bit as u32);
        place = place.wrapping_add(DESCRIPTOR_BYTES);
        nth = nth.wrapping_add(1);
    }
    place = FIXED_BYTES.wrapping_add(plan.rows_at).wrapping_sub(plan.descriptors_at);
    let mut nth = 0usize;
    while nth < plan.sections {
        #[expect(clippy::indexing_slicing, reason = "below the number of sections")]
        put_row(&mut header, place, word, plan.table[nth]);
        place = place.wrapping_add(row::bytes(word));
        nth = nth.wrapping_add(1);
    }
    header.units
}

const fn put_row<const N: usize>(header: &mut Units<N>, place: usize, word: WordSize, section: SectionPlan) {
    let count = section.count as usize;
    header.put(place.wrapping_add(row::KIND), 2, section.kind as u32);
    header.put(place.wrapping_add(row::ELEMENT_BYTES), 2, section.element_bytes as u32);
    header.put_word(place.wrapping_add(row::offset(word)), word, section.at.wrapping_mul(word.bytes()));
    header.put_word(place.wrapping_add(row::capacity(word)), word, count);
    header.put_word(place.wrapping_add(row::used(word)), word, if section.all_used { count } else { 0 });
    header.put_word(place.wrapping_add(row::backed(word)), word, count);
}

/// The word of a region that tells whether somebody is in the middle of an update, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyMark {
    /// Which word it is.
    pub at: usize,
    /// What it is where nobody is; with any other value but the next there is no ledger.
    pub idle: u64,
    /// What it is where somebody is.
    pub busy: u64,
}

/// The first word of the first section, behind header and notes.
pub const fn first_word<S: Shape>() -> usize {
    S::PLAN.first
}

/// The busy mark of ledgers of a shape, for who must look at it before it has the ledger.
pub const fn busy_mark<S: Shape>() -> BusyMark {
    type Of<S> = ChipLedger<S, &'static mut [<S as Shape>::Word]>;
    const fn in_memory<S: Shape>(word: u64) -> u64 {
        match (S::ORDER, ByteOrder::NATIVE, S::Word::SIZE) {
            (ByteOrder::Little, ByteOrder::Little, _) | (ByteOrder::Big, ByteOrder::Big, _) => word,
            (_, _, WordSize::W32) => (word as u32).swap_bytes() as u64,
            (_, _, WordSize::W64) => word.swap_bytes(),
        }
    }
    BusyMark {
        at: Of::<S>::BUSY_AT,
        idle: in_memory::<S>(Of::<S>::IDLE_WORD),
        busy: in_memory::<S>(Of::<S>::BUSY_WORD),
    }
}

/// The word with the amount of one of the counters that the header has not.
#[inline(always)]
pub(super) fn further_word<S: Shape>(nth: u32) -> usize {
    (S::room().counters_at as usize).wrapping_add((nth as usize).wrapping_mul(2)).wrapping_add(1)
}

/// The word of a region that counts frees that came while somebody was in the middle of an update. No update changes it.
#[inline(always)]
pub fn missed_frees_word<S: Shape>() -> usize {
    further_word::<S>(1)
}

/// The same of blocks that began.
pub const fn missed_word<S: Shape>() -> usize {
    counter_word(S::Word::SIZE, S::PLAN.globals.wrapping_add(TallyCounter::LostBusy as usize))
}

/// Words of the section `guard`.
const fn guard_words<S: Shape>() -> usize {
    (guard_rows(&S::CONFIG) as usize).wrapping_mul(chip_guard::ROW_WORDS)
}

/// The place of a section's row, and whether all its elements are in use from the beginning; 0 if there is none.
const fn row_of<S: Shape>(kind: SectionKind) -> (usize, bool) {
    let plan = S::PLAN;
    match plan.nth(kind) {
        Some(nth) => {
            let place = plan.rows_at.wrapping_add(nth.wrapping_mul(row::bytes(S::Word::SIZE)));
            #[expect(clippy::indexing_slicing, reason = "a place in the table")]
            (place, plan.table[nth].all_used)
        }
        None => (0, false),
    }
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Writes all that does not change later. What says that the ledger can be read comes last.
    #[cold]
    #[inline(never)]
    pub(super) fn set_up(&mut self) {
        for word in self.region.words_mut().get_mut(..S::room().words as usize).unwrap_or(&mut []) {
            *word = S::Word::ZERO;
            // Else it becomes a call of `memset`, which would be linked for this alone.
            compiler_fence(Ordering::SeqCst);
        }
        if S::HAS_HEAPS {
            self.describe_heaps();
        }
        let process = (S::room().process_at as usize).wrapping_mul(S::WORD_BYTES);
        if !S::CONFIG.process.is_empty() {
            self.copy(process, S::process());
        }
        if S::CONFIG.build_id_bytes != 0 {
            self.say_build_id(process.wrapping_add(S::process().len()));
        }
        if S::HAS_TIME {
            self.set_word(S::NOTES.clock, S::Word::cut(u64::from(S::ticks())));
        }
        // (A loop would be longer.)
        let [first, second, third, fourth] = FURTHER;
        let further = Table { at: further_word::<S>(0).wrapping_sub(1), words: 4, count: 1 };
        if let [one, _, other, _] = self.region.element_mut(further, 0) {
            *one = ordered::<S>(S::Word::cut(first as u64));
            *other = ordered::<S>(S::Word::cut(second as u64));
        }
        if S::HAS_GUARD {
            self.set_word(further_word::<S>(2).wrapping_sub(1), S::Word::cut(third as u64));
            self.set_word(further_word::<S>(3).wrapping_sub(1), S::Word::cut(fourth as u64));
            for nth in 0..guard_words::<S>() {
                self.set_word(S::guard_at().wrapping_add(nth), S::guard_word(nth));
            }
        }
        let ready = at::BYTE_ORDER.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        let per_word = S::WORD_BYTES / 4;
        let tail = S::PLAN.descriptors_at.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        let words = S::HEADER.len().min(header_unit_count::<S>()).wrapping_shr(per_word.trailing_zeros());
        for nth in 0..words {
            if nth != ready {
                let fixed = FIXED_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
                let at = if nth < fixed { nth } else { tail.wrapping_add(nth).wrapping_sub(fixed) };
                self.set_word(at, Self::header_word(nth));
            }
        }
        if S::ROOM.is_some() {
            self.describe_room();
        }
        S::laid_out();
        compiler_fence(Ordering::SeqCst);
        self.set_word(ready, Self::header_word(ready));
    }

    /// What the program has told, in place of what was known when this was compiled. (Section by section: a loop would have a table, and be longer.)
    #[inline(always)]
    fn describe_room(&mut self) {
        let room = S::room();
        if S::HAS_TIME {
            self.put(at::TICK_NS, 4, u64::from(room.tick_ns));
        }
        self.put(at::DEPTH_LIMIT, 2, u64::from(room.depth));
        self.describe_part(const { row_of::<S>(SectionKind::Records) }, room.records, S::RECORDS_AT as u32);
        self.describe_part(const { row_of::<S>(SectionKind::History) }, room.history, room.history_at);
        self.describe_part(const { row_of::<S>(SectionKind::Sites) }, room.sites, room.sites_at);
        self.describe_part(const { row_of::<S>(SectionKind::Threads) }, room.tasks, room.tasks_at);
        self.describe_part(const { row_of::<S>(SectionKind::Heaps) }, room.heaps, room.heaps_at);
        self.describe_part(const { row_of::<S>(SectionKind::Strings) }, room.names_bytes, room.strings_at);
        self.describe_part(const { row_of::<S>(SectionKind::Process) }, room.process_bytes, room.process_at);
        let counters = const { further_count(&S::CONFIG) };
        self.describe_part(const { row_of::<S>(SectionKind::Counters) }, counters, room.counters_at);
        if S::HAS_GUARD {
            self.describe_part(const { row_of::<S>(SectionKind::Errors) }, S::errors(), S::errors_at() as u32);
            let (guard, rows) = (S::guard_at() as u32, const { guard_rows(&S::CONFIG) });
            self.describe_part(const { row_of::<S>(SectionKind::Guard) }, rows, guard);
        }
    }

    /// The row of a section, if there is one.
    #[inline(always)]
    fn describe_part(&mut self, (place, is_all_used): (usize, bool), count: u32, first: u32) {
        if place == 0 {
            return;
        }
        let word = S::Word::SIZE;
        let bytes = u64::from(first).wrapping_mul(S::WORD_BYTES as u64);
        self.put(place.wrapping_add(row::offset(word)), S::WORD_BYTES, bytes);
        self.put(place.wrapping_add(row::capacity(word)), S::WORD_BYTES, count.into());
        self.put(place.wrapping_add(row::backed(word)), S::WORD_BYTES, count.into());
        if is_all_used {
            self.put(place.wrapping_add(row::used(word)), S::WORD_BYTES, count.into());
        }
    }

    /// A word of the fixed header or of what follows the counters.
    #[inline(always)]
    fn header_word(nth: usize) -> S::Word {
        let unit = |at: usize| u64::from(S::HEADER.get(at).copied().unwrap_or(0));
        S::Word::cut(match (S::Word::SIZE, S::ORDER) {
            (WordSize::W32, _) => unit(nth),
            (WordSize::W64, ByteOrder::Little) => {
                unit(nth.wrapping_mul(2)) | unit(nth.wrapping_mul(2).wrapping_add(1)) << 32
            }
            (WordSize::W64, ByteOrder::Big) => {
                unit(nth.wrapping_mul(2)) << 32 | unit(nth.wrapping_mul(2).wrapping_add(1))
            }
        })
    }

    /// The word with a unit of the fixed header, where a number of that unit is another one.
    #[inline(always)]
    const fn word_with(unit: usize, place: usize, width: usize, value: u32) -> u64 {
        let mut units = Units { units: header_units::<S, UNITS_MAX>(), order: S::ORDER };
        let within = place & 3;
        let bytes = match S::ORDER {
            ByteOrder::Little => within,
            ByteOrder::Big => 4usize.wrapping_sub(width).wrapping_sub(within),
        };
        let ones = if width == 1 { 0xFFu32 } else { 0xFFFF };
        let [first, second] = match S::Word::SIZE {
            WordSize::W32 => [unit, unit],
            WordSize::W64 => [unit & !1, unit | 1],
        };
        #[expect(clippy::indexing_slicing, reason = "units of the fixed header")]
        {
            units.units[unit] &= !ones.wrapping_shl((bytes as u32).wrapping_mul(8));
            units.put(place, width, value);
            match (S::Word::SIZE, S::ORDER) {
                (WordSize::W32, _) => units.units[unit] as u64,
                (WordSize::W64, ByteOrder::Little) => units.units[first] as u64 | (units.units[second] as u64) << 32,
                (WordSize::W64, ByteOrder::Big) => (units.units[first] as u64) << 32 | units.units[second] as u64,
            }
        }
    }

    const BUSY_AT: usize = BUSY_UNIT.wrapping_mul(4) / S::WORD_BYTES;
    const STATE_AT: usize = STATE_UNIT.wrapping_mul(4) / S::WORD_BYTES;
    const IDLE_WORD: u64 = Self::word_with(BUSY_UNIT, at::BUSY, 2, 0);
    const BUSY_WORD: u64 = Self::word_with(BUSY_UNIT, at::BUSY, 2, 1);
    const RECORDING_WORD: u64 = Self::word_with(STATE_UNIT, at::STATE, 1, State::Recording as u32);
    const FULL_WORD: u64 = Self::word_with(STATE_UNIT, at::STATE, 1, State::Full as u32);
    const STOPPED_WORD: u64 = Self::word_with(STATE_UNIT, at::STATE, 1, State::Stopped as u32);

    #[inline(always)]
    pub(super) fn set_busy(&mut self, is_busy: bool) {
        self.region.set_half(at::BUSY, half_ordered::<S>(u16::from(is_busy)));
    }

    /// Whether a header of this shape is there, and nobody is in the middle of an update: one word says both.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.word(Self::BUSY_AT) == S::Word::cut(Self::IDLE_WORD)
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.region.byte(at::STATE) == State::Full as u8
    }

    #[inline(always)]
    pub(super) fn set_state(&mut self, state: State) {
        self.region.set_byte(at::STATE, state as u8);
    }

    /// Whether what lies in the region is a ledger of this very shape, as an update may have left it: all that never changes in its header is as
    /// it was written, and its tables are no longer than there is room for. (The busy mark may be set.)
    pub fn is_whole(&self) -> bool {
        let fixed = FIXED_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        let tail = S::PLAN.descriptors_at.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        let words = header_unit_count::<S>().wrapping_shr((S::WORD_BYTES / 4).trailing_zeros());
        let one_of = |word: S::Word, values: &[u64]| values.iter().any(|value| word == S::Word::cut(*value));
        (0..words).all(|nth| {
            let at = if nth < fixed { nth } else { tail.wrapping_add(nth).wrapping_sub(fixed) };
            let word = self.word(at);
            let most = match at {
                _ if nth < fixed => 0,
                _ if at == S::RECORDS_USED => S::room().records,
                _ if at == S::HISTORY_USED => S::room().history,
                _ if at == S::TASKS_USED => S::room().tasks,
                _ if at == S::ERRORS_USED => S::errors(),
                _ => 0,
            };
            if most != 0 {
                word.widen() <= u64::from(most)
            } else if at == Self::BUSY_AT {
                // With 64-bit words the state lies in another one, too.
                one_of(word, &[Self::IDLE_WORD, Self::BUSY_WORD])
            } else if at == Self::STATE_AT {
                one_of(word, &[Self::RECORDING_WORD, Self::FULL_WORD, Self::STOPPED_WORD])
            } else {
                word == Self::told_word(at, Self::header_word(nth))
            }
        })
    }

    /// A word of the header as the program's telling makes it, see [`ChipLedger::describe_room`].
    fn told_word(at: usize, known: S::Word) -> S::Word {
        let (room, word) = (S::room(), S::Word::SIZE);
        let place = at.wrapping_mul(S::WORD_BYTES);
        let told = |value: u32| S::Word::cut(u64::from(value));
        // Words have 32 bits where a program tells.
        if S::ROOM.is_none() {
            return known;
        }
        if S::HAS_TIME && place == at::TICK_NS {
            return told(room.tick_ns);
        }
        if place == at::DEPTH_LIMIT {
            let shift = shift::<S>(at::DEPTH_LIMIT, 2);
            return known.and(ones::<S>(16).up(shift).not()).or(told(room.depth).up(shift));
        }
        let parts = [
            (const { row_of::<S>(SectionKind::Records) }, room.records, S::RECORDS_AT as u32),
            (const { row_of::<S>(SectionKind::History) }, room.history, room.history_at),
            (const { row_of::<S>(SectionKind::Sites) }, room.sites, room.sites_at),
            (const { row_of::<S>(SectionKind::Threads) }, room.tasks, room.tasks_at),
            (const { row_of::<S>(SectionKind::Heaps) }, room.heaps, room.heaps_at),
            (const { row_of::<S>(SectionKind::Strings) }, room.names_bytes, room.strings_at),
            (const { row_of::<S>(SectionKind::Process) }, room.process_bytes, room.process_at),
            (const { row_of::<S>(SectionKind::Counters) }, further_count(&S::CONFIG), room.counters_at),
        ];
        let of_guard = [
            (const { row_of::<S>(SectionKind::Errors) }, S::errors(), S::errors_at() as u32),
            (const { row_of::<S>(SectionKind::Guard) }, guard_rows(&S::CONFIG), S::guard_at() as u32),
        ];
        let of_guard = of_guard.get(..if S::HAS_GUARD { 2 } else { 0 }).unwrap_or(&[]);
        let part = parts
            .iter()
            .chain(of_guard)
            .find(|((row, _), ..)| *row != 0 && place > *row && place < row.wrapping_add(row::bytes(word)));
        match part {
            Some(((row, _), _, first)) if place == row.wrapping_add(row::offset(word)) => {
                told(first.wrapping_mul(S::WORD_BYTES as u32))
            }
            // Those in use are all there, or looked at before.
            Some((_, count, _)) => told(*count),
            None => known,
        }
    }

    fn describe_heaps(&mut self) {
        let word = S::Word::SIZE;
        let mut name_at = 0usize;
        let words = S::HEAP_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        let table = Table { at: S::room().heaps_at as usize, words, count: S::room().heaps };
        for nth in 0..S::room().heaps {
            let (name, (low, high)) = (S::heap_name(nth), S::heap_range(nth));
            let mut put = |at, width, value| self.put_part((table, nth), at, width, S::Word::cut(value));
            put(heap::state(word), 4, 1);
            put(heap::name_at(word), 4, name_at as u64);
            put(heap::name_bytes(word), 4, name.len() as u64);
            put(heap::low(word), S::WORD_BYTES, low);
            put(heap::high(word), S::WORD_BYTES, high);
            self.copy((S::room().strings_at as usize).wrapping_mul(S::WORD_BYTES).wrapping_add(name_at), name);
            name_at = name_at.wrapping_add(name.len());
        }
    }

    /// Two hexadecimal digits for each byte that there is room for.
    fn say_build_id(&mut self, place: usize) {
        self.copy(place, BUILD_ID);
        let digits = place.wrapping_add(BUILD_ID.len());
        let known = S::build_id().iter().take(usize::from(S::CONFIG.build_id_bytes));
        for (at, digit) in (digits..).zip(known.flat_map(|byte| [byte >> 4, byte & 15])) {
            let letter = if digit < 10 { b'0' } else { b'a'.wrapping_sub(10) };
            self.put(at, 1, u64::from(letter.wrapping_add(digit)));
        }
    }

    /// Puts bytes where there are zeros.
    pub(super) fn copy(&mut self, place: usize, bytes: &[u8]) {
        for (place, byte) in (place..).zip(bytes) {
            let at = place.wrapping_shr(S::WORD_BYTES.trailing_zeros());
            let byte = S::Word::cut(u64::from(*byte)).up(shift::<S>(place, 1));
            self.set_word(at, self.word(at).or(byte));
        }
    }
}
