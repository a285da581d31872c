//! What a chip's ledger holds, and where: sizes chosen by the caller, places reckoned from them.

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::header::rows_at;
use heapledger_format::layout::{Field, RecordLayout};
use heapledger_format::record::Options;
use heapledger_format::section::{heap, row, site, thread};
use heapledger_format::{GlobalCounter, TallyCounter};

const WORD: WordSize = WordSize::W32;
const WORD_BYTES: usize = 4;

/// A heap of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapDescription<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its lowest address.
    pub low: u32,
    /// One past its highest address.
    pub high: u32,
}

/// Sizes and switches of a ledger. A count of 0 leaves the section and its fields out, and so does a
/// switch that is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// What is recorded beside address, size, number and kind.
    pub options: Options,
    /// Live blocks that there is room for.
    pub records: u32,
    /// Nodes of the call-site trie; the first stands for no stack.
    pub sites: u32,
    /// Entries of the history ring.
    pub history: u32,
    /// Tasks that get a row.
    pub tasks: u32,
    /// Most frames of a stack.
    pub depth: u16,
    /// The heaps, in the order of [`super::NewBlock::heap`].
    pub heaps: &'a [HeapDescription<'a>],
    /// What is known of the firmware: `key=value`, each ended by a zero byte.
    pub process: &'a [u8],
    /// ELF machine number; `EM_ARM` is 40.
    pub machine: u16,
    /// Nanoseconds of a clock tick; 0 if they have no known length.
    pub tick_ns: u32,
    /// Identity of the build, or of this run of it.
    pub id: [u8; 16],
    /// Byte order of the ledger; [`ByteOrder::NATIVE`] unless a test wants another.
    pub order: ByteOrder,
}

/// Why there is no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChipError {
    /// The region is too small.
    TooSmall {
        /// Bytes that the configuration needs.
        needed: usize,
        /// Bytes that the region has.
        given: usize,
    },
    /// There must be room for one record at least.
    NoRecords,
    /// More of something than the layout can hold. The name of the setting.
    TooMany(&'static str),
}

impl core::fmt::Display for ChipError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ChipError::TooSmall { needed, given } => {
                write!(f, "the ledger needs {needed} bytes and the region has {given}")
            }
            ChipError::NoRecords => f.write_str("a ledger needs room for at least one record"),
            ChipError::TooMany(setting) => write!(f, "the ledger cannot hold so many: {setting}"),
        }
    }
}

impl core::error::Error for ChipError {}

/// Most records, sites and history entries: far more than a 32-bit address space has room for.
const ELEMENTS_MAX: u32 = 1 << 24;
const TASKS_MAX: u32 = 0xFFFE;
const HEAPS_MAX: usize = 256;

impl<'a> Config<'a> {
    /// The smallest useful ledger: who holds which block. Add to it: `Config { history: 64, ..Config::minimal(100, 200) }`
    /// and the switch in [`Config::options`].
    pub const fn minimal(records: u32, sites: u32) -> Config<'a> {
        Config {
            options: Options(Options::STACK),
            records,
            sites,
            history: 0,
            tasks: 0,
            depth: 32,
            heaps: &[],
            process: &[],
            machine: 0,
            tick_ns: 0,
            id: [0; 16],
            order: ByteOrder::NATIVE,
        }
    }

    /// Bytes that the ledger needs.
    pub const fn bytes(&self) -> usize {
        Plan::new(self).bytes
    }

    /// Bytes of its header, descriptors and section table.
    pub const fn header_bytes(&self) -> usize {
        Plan::new(self).header_bytes
    }

    /// Whether the layout can hold so much.
    pub(super) const fn check(&self) -> Result<(), ChipError> {
        if self.records == 0 {
            return Err(ChipError::NoRecords);
        }
        if self.records > ELEMENTS_MAX {
            return Err(ChipError::TooMany("records"));
        }
        if self.sites > ELEMENTS_MAX {
            return Err(ChipError::TooMany("sites"));
        }
        if self.history > ELEMENTS_MAX {
            return Err(ChipError::TooMany("history"));
        }
        if self.tasks > TASKS_MAX {
            return Err(ChipError::TooMany("tasks"));
        }
        if self.heaps.len() > HEAPS_MAX {
            return Err(ChipError::TooMany("heaps"));
        }
        Ok(())
    }

    /// The switches that are on and whose section has room.
    const fn effective(&self) -> Options {
        let mut options = self.options.0;
        if self.sites < 2 {
            options &= !Options::STACK;
        }
        if self.history == 0 {
            options &= !Options::HISTORY;
        }
        if self.tasks == 0 {
            options &= !Options::THREAD;
        }
        if self.heaps.is_empty() {
            options &= !Options::HEAP;
        }
        Options(options)
    }
}

/// Where a section lies.
#[derive(Clone, Copy)]
pub(super) struct SectionPlace {
    pub(super) at: usize,
    pub(super) count: u32,
    pub(super) element_bytes: usize,
}

impl SectionPlace {
    const NONE: SectionPlace = SectionPlace { at: 0, count: 0, element_bytes: 0 };

    /// Where an element begins.
    pub(super) const fn element(&self, index: u32) -> usize {
        self.at.wrapping_add((index as usize).wrapping_mul(self.element_bytes))
    }
}

/// Where everything lies.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) codec: Codec,
    pub(super) options: Options,
    pub(super) layout: RecordLayout,
    pub(super) depth: u16,
    pub(super) globals: usize,
    pub(super) counters: usize,
    pub(super) sections: usize,
    pub(super) header_bytes: usize,
    pub(super) records: SectionPlace,
    pub(super) history: SectionPlace,
    pub(super) sites: SectionPlace,
    pub(super) index: SectionPlace,
    pub(super) tasks: SectionPlace,
    pub(super) heaps: SectionPlace,
    pub(super) strings: SectionPlace,
    pub(super) process: SectionPlace,
    pub(super) bytes: usize,
}

impl Plan {
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    pub(super) const fn new(config: &Config) -> Plan {
        let options = config.effective();
        let Fields { layout, count, record_words, history_words } = fields(options, config);
        // Counters above can only move in a ledger that has what they count.
        let last = if options.has(Options::THREAD) { TallyCounter::ThreadsUnnamed } else { TallyCounter::FailedCalls };
        let history = if options.has(Options::HISTORY) { config.history } else { 0 };
        // A debugger that carries the history off notes how far it came.
        let globals = if history == 0 { GlobalCounter::SMALL_COUNT } else { GlobalCounter::HISTORY_COUNT };
        let counters = globals.wrapping_add(last as usize).wrapping_add(1);
        let sites = if options.has(Options::STACK) { config.sites } else { 0 };
        let tasks = if options.has(Options::THREAD) { config.tasks } else { 0 };
        let heaps = if options.has(Options::HEAP) { config.heaps.len() } else { 0 };
        let mut strings = 0usize;
        let mut heap = 0;
        while heap < heaps {
            strings = strings.saturating_add(config.heaps[heap].name.len());
            heap = heap.wrapping_add(1);
        }
        let counts = [config.records, history, sites, tasks, heaps as u32, strings as u32, config.process.len() as u32];
        // Records and index are always there.
        let mut sections = 1usize;
        let mut at = 0;
        while at < counts.len() {
            sections = sections.wrapping_add((counts[at] != 0) as usize);
            at = at.wrapping_add(1);
        }
        let first_row = rows_at(WORD, counters, count);
        let header_bytes = first_row.wrapping_add(sections.wrapping_mul(row::bytes(WORD)));
        let mut plan = Plan {
            codec: Codec { order: config.order, word: WORD },
            options,
            layout,
            depth: config.depth,
            globals,
            counters,
            sections,
            header_bytes,
            records: SectionPlace::NONE,
            history: SectionPlace::NONE,
            sites: SectionPlace::NONE,
            index: SectionPlace::NONE,
            tasks: SectionPlace::NONE,
            heaps: SectionPlace::NONE,
            strings: SectionPlace::NONE,
            process: SectionPlace::NONE,
            bytes: header_bytes,
        };
        plan.records = plan.place(config.records, record_words.wrapping_mul(WORD_BYTES));
        plan.history = plan.place(history, history_words.wrapping_mul(WORD_BYTES));
        plan.sites = plan.place(sites, site::BYTES);
        // A quarter more cells than records keeps chains short; one more cell ends every search.
        let cell_bytes = if config.records < 0xFFFF { 2 } else { 4 };
        plan.index = plan.place(config.records.saturating_add(config.records / 4).saturating_add(1), cell_bytes);
        plan.tasks = plan.place(tasks, thread::bytes(WORD));
        plan.heaps = plan.place(heaps as u32, heap::bytes(WORD));
        plan.strings = plan.place(strings as u32, 1);
        plan.process = plan.place(config.process.len() as u32, 1);
        plan
    }

    const fn place(&mut self, count: u32, element_bytes: usize) -> SectionPlace {
        let at = self.bytes.next_multiple_of(WORD_BYTES);
        if count == 0 {
            return SectionPlace::NONE;
        }
        self.bytes = at.saturating_add((count as usize).saturating_mul(element_bytes));
        SectionPlace { at, count, element_bytes }
    }
}

/// Bits that the numbers 0 to `max` need; at least 1.
const fn bits(max: u32) -> u8 {
    if max == 0 { 1 } else { u32::BITS.wrapping_sub(max.leading_zeros()) as u8 }
}

/// Most words of a history entry: fifteen fields, each in a word of its own.
const WORDS_MAX: usize = 15;

struct Fields {
    layout: RecordLayout,
    count: usize,
    record_words: usize,
    history_words: usize,
}

/// Puts each field that is wanted into the first word with room for it, those of a history entry
/// behind the record.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const fn fields(options: Options, config: &Config) -> Fields {
    let site = bits(config.sites.saturating_sub(1));
    // All ones stand for a task without a row.
    let task = bits(config.tasks);
    let heap = bits(config.heaps.len().saturating_sub(1) as u32);
    const HISTORY: u32 = Options::HISTORY;
    // Whole words first: then the order of the fields is also their place.
    let wanted = [
        (Field::Number, 32, 0),
        (Field::Address, 32, 0),
        (Field::Size, 32, 0),
        (Field::Time, 32, Options::TIME),
        (Field::Excess, 16, Options::ACTUAL_SIZE),
        (Field::Site, site, Options::STACK),
        (Field::Kind, 6, 0),
        (Field::Thread, task, Options::THREAD),
        (Field::Heap, heap, Options::HEAP),
        (Field::FreedNumber, 32, HISTORY),
        (Field::FreedTime, 32, HISTORY | Options::TIME),
        (Field::FreedSite, site, HISTORY | Options::STACK),
        (Field::FreedBy, 6, HISTORY),
        (Field::FreedThread, task, HISTORY | Options::THREAD),
    ];
    let mut layout = RecordLayout::empty(WORD);
    let mut used = [0u8; WORDS_MAX];
    let (mut first, mut words, mut record_words) = (0, 0, 0);
    let (mut at, mut count) = (0, 0usize);
    while at < wanted.len() {
        let (field, width, needs) = wanted[at];
        at = at.wrapping_add(1);
        if matches!(field, Field::FreedNumber) {
            record_words = words;
            first = words;
        }
        if options.0 & needs != needs {
            continue;
        }
        let mut word = first;
        while word < WORDS_MAX && used[word].wrapping_add(width) > 32 {
            word = word.wrapping_add(1);
        }
        if let Some(more) =
            layout.with(field as u8, width, (word.wrapping_mul(32) as u16).wrapping_add(used[word] as u16))
        {
            layout = more;
            count = count.wrapping_add(1);
        }
        used[word] = used[word].wrapping_add(width);
        if word >= words {
            words = word.wrapping_add(1);
        }
    }
    Fields { layout, count, record_words, history_words: words }
}
