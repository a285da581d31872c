//! The header: what a reader must know before it can read anything else.
//!
//! ```text
//!  0  8  magic 89 48 4C 45 44 47 0D 0A            32 16  ledger id
//!  8  2  byte order mark 0x0102                   48  4  order bound
//! 10  1  version                                  52  2  bytes of the header, tables included
//! 11  1  word size, 4 or 8                        54  2  busy mark
//! 12  2  machine (ELF e_machine)                  56  1  descriptors
//! 14  2  flags                                    57  1  counters
//! 16  4  options                                  58  1  section rows
//! 20  4  nanoseconds per tick                     59  1  state
//! 24  8  wall clock at tick 0, ns since 1970      60  2  depth limit of stacks
//!                                                 62  1  counters that exist once
//!                                                 63  1  (0)
//! 64  counters, one word each; descriptors, 4 bytes each; padding to a word; section rows
//! ```

use crate::VERSION;
use crate::bytes::{ByteOrder, Codec, WordSize};
use crate::counter::{GlobalCounter, TallyCounter};
use crate::layout::{DESCRIPTOR_BYTES, MAX_DESCRIPTORS, RecordLayout};
use crate::record::Options;
use crate::section::{SectionRow, row};

/// First bytes of every ledger. Not text, and damaged by tools that translate line ends.
pub const MAGIC: [u8; 8] = *b"\x89HLEDG\r\n";
/// Bytes before the counters.
pub const FIXED_BYTES: usize = 64;
/// Most bytes that a header can have.
pub const HEADER_BYTES_MAX: usize = 4096;
/// Most section rows.
pub const MAX_SECTIONS: usize = 32;
/// Most counters.
pub const MAX_COUNTERS: usize = 128;

/// Places of the fixed part.
pub mod at {
    /// Byte order mark, 2 bytes.
    pub const BYTE_ORDER: usize = 8;
    /// Version, 1 byte.
    pub const VERSION: usize = 10;
    /// Word size in bytes, 1 byte.
    pub const WORD: usize = 11;
    /// ELF machine number, 2 bytes.
    pub const MACHINE: usize = 12;
    /// Flags, 2 bytes, see [`super::flag`].
    pub const FLAGS: usize = 14;
    /// Options, 4 bytes, see [`crate::record::Options`].
    pub const OPTIONS: usize = 16;
    /// Nanoseconds per tick, 4 bytes; 0 if ticks have no known length.
    pub const TICK_NS: usize = 20;
    /// Wall clock at tick 0, 8 bytes; 0 if unknown.
    pub const START_UNIX_NS: usize = 24;
    /// Ledger id, 16 bytes.
    pub const ID: usize = 32;
    /// Two events of different threads whose numbers are further apart than this are in order; 4 bytes.
    pub const ORDER_BOUND: usize = 48;
    /// Bytes of the whole header, 2 bytes.
    pub const HEADER_BYTES: usize = 52;
    /// Not 0 while an update is under way that a reader of a halted target must not see half done; 2 bytes.
    pub const BUSY: usize = 54;
    /// Number of descriptors, 1 byte.
    pub const DESCRIPTORS: usize = 56;
    /// Number of counters, 1 byte.
    pub const COUNTERS: usize = 57;
    /// Number of section rows, 1 byte.
    pub const SECTIONS: usize = 58;
    /// See [`super::State`], 1 byte.
    pub const STATE: usize = 59;
    /// Most frames of a stack, 2 bytes.
    pub const DEPTH_LIMIT: usize = 60;
    /// How many of the counters exist once; those that are summed follow; 1 byte.
    pub const GLOBALS: usize = 62;
}

/// Bits of the flags.
pub mod flag {
    /// The header is followed by pieces, not by sections in place.
    pub const FINISHED: u16 = 1;
    /// Records are published one by one: a reader need not halt the writer.
    pub const PUBLISHED_SINGLY: u16 = 2;
    /// A finished ledger of a moment: its program went on.
    pub const SNAPSHOT: u16 = 4;
    /// A copy of a ledger in place, as of one moment: nobody writes it any more, whatever its process does.
    pub const COPY: u16 = 8;
}

/// What the recorder was doing when it last said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The ledger is being set up; nothing can be read yet.
    Starting = 0,
    /// Blocks are entered.
    Recording = 1,
    /// Out of room: frees are followed, new blocks are counted and not entered.
    Full = 2,
    /// Recording has ended for good while the program went on.
    Stopped = 3,
}

/// What stands at [`at::BYTE_ORDER`], in the ledger's byte order.
const BYTE_ORDER_MARK: u64 = 0x0102;

impl State {
    /// The state of this number; unknown ones count as stopped.
    pub const fn from_number(number: u8) -> State {
        match number {
            0 => State::Starting,
            1 => State::Recording,
            2 => State::Full,
            _ => State::Stopped,
        }
    }
}

/// Why bytes are not a ledger that this version reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The first bytes are something else.
    NotALedger,
    /// The bytes end before the header does. Bytes there are, bytes needed.
    HeaderCut(usize, usize),
    /// The ledger was written by a later version.
    Newer(u8),
    /// A part of the header has a value that no writer makes. The name of the part.
    Damaged(&'static str),
    /// The recorder had not finished setting the ledger up.
    NotReady,
}

impl core::fmt::Display for FormatError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FormatError::NotALedger => f.write_str("not a ledger"),
            FormatError::HeaderCut(is, needed) => {
                write!(f, "the ledger is cut inside its header: {is} bytes, {needed} needed")
            }
            FormatError::Newer(version) => {
                write!(f, "the ledger has format version {version}; this heapledger reads up to version {VERSION}")
            }
            FormatError::Damaged(part) => write!(f, "the ledger's header is damaged: {part}"),
            FormatError::NotReady => f.write_str("the ledger was being set up and holds nothing yet"),
        }
    }
}

impl core::error::Error for FormatError {}

/// A header, taken apart. About 2.5 KiB: keep it out of small stacks.
#[derive(Clone, Debug)]
pub struct Header {
    /// Byte order and word size.
    pub codec: Codec,
    /// ELF machine number.
    pub machine: u16,
    /// See [`flag`].
    pub flags: u16,
    /// What is recorded.
    pub options: Options,
    /// Nanoseconds per tick; 0 if ticks have no known length.
    pub tick_ns: u32,
    /// Wall clock at tick 0 in nanoseconds since 1970; 0 if unknown.
    pub start_unix_ns: u64,
    /// Identity of this ledger.
    pub id: [u8; 16],
    /// See [`at::ORDER_BOUND`].
    pub order_bound: u32,
    /// Whether an update was under way.
    pub busy: u16,
    /// What the recorder was doing.
    pub state: State,
    /// Most frames of a stack.
    pub depth_limit: u16,
    /// Where the fields of records lie.
    pub layout: RecordLayout,
    counters: [u64; MAX_COUNTERS],
    counter_count: usize,
    global_count: usize,
    rows: [SectionRow; MAX_SECTIONS],
    row_count: usize,
}

/// Where the section rows begin, in bytes.
pub const fn rows_at(word: WordSize, counters: usize, descriptors: usize) -> usize {
    let descriptors_at = counter_at(word, counters);
    let end = nth(descriptors_at, descriptors, DESCRIPTOR_BYTES);
    end.div_ceil(word.bytes()).saturating_mul(word.bytes())
}

/// Where the counter `index` lies, in bytes.
#[inline(always)]
pub const fn counter_at(word: WordSize, index: usize) -> usize {
    nth(FIXED_BYTES, index, word.bytes())
}

/// Where the element `index` of a table lies.
#[inline(always)]
const fn nth(first: usize, index: usize, element_bytes: usize) -> usize {
    first.saturating_add(index.saturating_mul(element_bytes))
}

/// Where a field descriptor's field, width and place lie.
const fn descriptor_at(place: usize) -> [usize; 3] {
    [place, place.saturating_add(1), place.saturating_add(2)]
}

impl Header {
    /// A header without counters' values and without sections, for writing.
    pub fn new(codec: Codec, layout: RecordLayout, options: Options) -> Header {
        Header {
            codec,
            machine: 0,
            flags: 0,
            options: options.of_layout(&layout),
            tick_ns: 0,
            start_unix_ns: 0,
            id: [0; 16],
            order_bound: 0,
            busy: 0,
            state: State::Starting,
            depth_limit: 0,
            layout,
            counters: [0; MAX_COUNTERS],
            counter_count: GlobalCounter::COUNT + TallyCounter::COUNT,
            global_count: GlobalCounter::COUNT,
            rows: [SectionRow::default(); MAX_SECTIONS],
            row_count: 0,
        }
    }

    /// Has `count` counters, of which `globals` exist once: a small target has no use for all, and a copy of a
    /// ledger has those of its original. Call it before any counter is set.
    pub fn limit_counters(&mut self, globals: usize, count: usize) {
        self.counter_count = count.min(MAX_COUNTERS);
        self.global_count = globals.min(self.counter_count);
    }

    /// Adds a section; false if the table is full.
    pub fn add_section(&mut self, section: SectionRow) -> bool {
        match self.rows.get_mut(self.row_count) {
            Some(place) => {
                *place = section;
                self.row_count = self.row_count.saturating_add(1);
                true
            }
            None => false,
        }
    }

    /// The section table.
    pub fn sections(&self) -> &[SectionRow] {
        self.rows.get(..self.row_count).unwrap_or(&[])
    }

    /// The section table, to be changed.
    pub fn sections_mut(&mut self) -> &mut [SectionRow] {
        self.rows.get_mut(..self.row_count).unwrap_or(&mut [])
    }

    /// The section of this kind, or of this number if this version does not know what it is.
    pub fn section(&self, kind: impl Into<u16>) -> Option<&SectionRow> {
        let kind = kind.into();
        self.sections().iter().find(|row| row.kind == kind)
    }

    /// Where the row of this kind lies, in bytes from the start of the header.
    pub fn row_at(&self, kind: impl Into<u16>) -> Option<usize> {
        let kind = kind.into();
        let index = self.sections().iter().position(|row| row.kind == kind)?;
        let first = rows_at(self.codec.word, self.counter_count, self.layout.descriptors().len());
        Some(nth(first, index, row::bytes(self.codec.word)))
    }

    /// Number of counters in this header.
    pub fn counter_count(&self) -> usize {
        self.counter_count
    }

    /// How many of them exist once.
    pub fn global_count(&self) -> usize {
        self.global_count
    }

    /// A counter that exists once; 0 if this ledger does not have it.
    pub fn global(&self, counter: GlobalCounter) -> u64 {
        let globals = self.counters.get(..self.global_count).unwrap_or(&[]);
        globals.get(counter as usize).copied().unwrap_or(0)
    }

    fn tally_index(&self, counter: TallyCounter) -> usize {
        self.global_count.saturating_add(counter as usize)
    }

    /// The header's share of a counter that is summed; 0 if this ledger does not have it.
    pub fn tally(&self, counter: TallyCounter) -> u64 {
        self.counters.get(self.tally_index(counter)).copied().unwrap_or(0)
    }

    /// Sets a counter that exists once, if this header has it.
    pub fn set_global(&mut self, counter: GlobalCounter, value: u64) {
        let globals = self.counters.get_mut(..self.global_count).unwrap_or(&mut []);
        if let Some(place) = globals.get_mut(counter as usize) {
            *place = value;
        }
    }

    /// Sets the header's share of a counter that is summed, if this header has it.
    pub fn set_tally(&mut self, counter: TallyCounter, value: u64) {
        let index = self.tally_index(counter);
        if let Some(place) = self.counters.get_mut(index) {
            *place = value;
        }
    }

    /// Bytes of this header when written.
    pub fn bytes(&self) -> usize {
        let first = rows_at(self.codec.word, self.counter_count, self.layout.descriptors().len());
        nth(first, self.row_count, row::bytes(self.codec.word))
    }

    /// Reads a header. `bytes` may go on behind it.
    ///
    /// # Errors
    /// If the bytes are no ledger, a newer one, a damaged one, or end too early.
    pub fn parse(bytes: &[u8]) -> Result<Header, FormatError> {
        let magic_seen = bytes.len().min(MAGIC.len());
        if bytes.get(..magic_seen) != MAGIC.get(..magic_seen) || magic_seen == 0 {
            return Err(FormatError::NotALedger);
        }
        if bytes.len() < FIXED_BYTES {
            return Err(FormatError::HeaderCut(bytes.len(), FIXED_BYTES));
        }
        let order = match bytes.get(at::BYTE_ORDER..at::BYTE_ORDER + 2) {
            Some([2, 1]) => ByteOrder::Little,
            Some([1, 2]) => ByteOrder::Big,
            Some([0, 0]) => return Err(FormatError::NotReady),
            _ => return Err(FormatError::Damaged("byte order")),
        };
        let version = bytes.get(at::VERSION).copied().unwrap_or(0);
        if version > VERSION {
            return Err(FormatError::Newer(version));
        }
        if version == 0 {
            return Err(FormatError::Damaged("version"));
        }
        let word = match bytes.get(at::WORD) {
            Some(4) => WordSize::W32,
            Some(8) => WordSize::W64,
            _ => return Err(FormatError::Damaged("word size")),
        };
        let codec = Codec { order, word };
        let small = |place| codec.number(bytes, place, 1) as usize;
        let (descriptors, counters, rows) = (small(at::DESCRIPTORS), small(at::COUNTERS), small(at::SECTIONS));
        if descriptors > MAX_DESCRIPTORS || counters > MAX_COUNTERS || rows > MAX_SECTIONS {
            return Err(FormatError::Damaged("a table with too many rows"));
        }
        let first_row = rows_at(word, counters, descriptors);
        let needed = nth(first_row, rows, row::bytes(word));
        if usize::from(codec.u16(bytes, at::HEADER_BYTES)) < needed {
            return Err(FormatError::Damaged("length"));
        }
        if bytes.len() < needed {
            return Err(FormatError::HeaderCut(bytes.len(), needed));
        }
        let mut header = Header::new(codec, RecordLayout::empty(word), Options(codec.u32(bytes, at::OPTIONS)));
        header.machine = codec.u16(bytes, at::MACHINE);
        header.flags = codec.u16(bytes, at::FLAGS);
        header.tick_ns = codec.u32(bytes, at::TICK_NS);
        header.start_unix_ns = codec.u64(bytes, at::START_UNIX_NS);
        if let Some(id) = bytes.get(at::ID..at::ID + 16) {
            header.id.copy_from_slice(id);
        }
        header.order_bound = codec.u32(bytes, at::ORDER_BOUND);
        header.busy = codec.u16(bytes, at::BUSY);
        header.state = State::from_number(small(at::STATE) as u8);
        header.depth_limit = codec.u16(bytes, at::DEPTH_LIMIT);
        header.counter_count = counters;
        header.global_count = small(at::GLOBALS);
        if header.global_count > counters {
            return Err(FormatError::Damaged("counters"));
        }
        for (index, counter) in header.counters.iter_mut().enumerate().take(counters) {
            *counter = codec.word(bytes, counter_at(word, index));
        }
        let first_descriptor = counter_at(word, counters);
        for index in 0..descriptors {
            let [field, width_bits, at_bit] = descriptor_at(nth(first_descriptor, index, DESCRIPTOR_BYTES));
            header.layout = header
                .layout
                .with(small(field) as u8, small(width_bits) as u8, codec.u16(bytes, at_bit))
                .ok_or(FormatError::Damaged("a field descriptor"))?;
        }
        header.options = header.options.of_layout(&header.layout);
        for index in 0..rows {
            let place = nth(first_row, index, row::bytes(word));
            header.add_section(SectionRow::read(codec, bytes.get(place..).unwrap_or(&[])));
        }
        Ok(header)
    }

    /// Writes the header; returns its length, or `None` if `bytes` is too short.
    pub fn write(&self, bytes: &mut [u8]) -> Option<usize> {
        self.write_marked(bytes, BYTE_ORDER_MARK)
    }

    /// The same without the mark of the byte order, at no moment: readers keep off until it is written.
    pub fn write_unready(&self, bytes: &mut [u8]) -> Option<usize> {
        self.write_marked(bytes, 0)
    }

    fn write_marked(&self, bytes: &mut [u8], mark: u64) -> Option<usize> {
        let codec = self.codec;
        let word = codec.word;
        let length = self.bytes();
        let bytes = bytes.get_mut(..length)?;
        bytes.fill(0);
        bytes.get_mut(..8)?.copy_from_slice(&MAGIC);
        let mut put = |place, width, value| codec.put(bytes, place, width, value);
        put(at::BYTE_ORDER, 2, mark);
        put(at::VERSION, 1, u64::from(VERSION));
        put(at::WORD, 1, word.bytes() as u64);
        put(at::MACHINE, 2, u64::from(self.machine));
        put(at::FLAGS, 2, u64::from(self.flags));
        put(at::OPTIONS, 4, u64::from(self.options.stored().0));
        put(at::TICK_NS, 4, u64::from(self.tick_ns));
        put(at::START_UNIX_NS, 8, self.start_unix_ns);
        put(at::ORDER_BOUND, 4, u64::from(self.order_bound));
        put(at::HEADER_BYTES, 2, length as u64);
        put(at::BUSY, 2, u64::from(self.busy));
        put(at::DESCRIPTORS, 1, self.layout.descriptors().len() as u64);
        put(at::COUNTERS, 1, self.counter_count as u64);
        put(at::SECTIONS, 1, self.row_count as u64);
        put(at::STATE, 1, self.state as u64);
        put(at::DEPTH_LIMIT, 2, u64::from(self.depth_limit));
        put(at::GLOBALS, 1, self.global_count as u64);
        for (index, value) in self.counters.iter().enumerate().take(self.counter_count) {
            put(counter_at(word, index), word.bytes(), *value);
        }
        let first_descriptor = counter_at(word, self.counter_count);
        for (index, descriptor) in self.layout.descriptors().iter().enumerate() {
            let [field, width_bits, at_bit] = descriptor_at(nth(first_descriptor, index, DESCRIPTOR_BYTES));
            put(field, 1, u64::from(descriptor.field));
            put(width_bits, 1, u64::from(descriptor.width_bits));
            put(at_bit, 2, u64::from(descriptor.at_bit));
        }
        bytes.get_mut(at::ID..at::ID + 16)?.copy_from_slice(&self.id);
        let first_row = rows_at(word, self.counter_count, self.layout.descriptors().len());
        for (index, section) in self.sections().iter().enumerate() {
            section.write(codec, bytes.get_mut(nth(first_row, index, row::bytes(word))..)?);
        }
        Some(length)
    }
}

#[cfg(test)]
mod tests;
