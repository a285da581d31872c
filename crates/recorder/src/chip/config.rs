//! How much a chip's ledger has room for, chosen by the caller, and where its sections lie.

use super::shape::{Fixed, Shape};
use super::word::Word;
use heapledger_format::SectionKind;
use heapledger_format::section::{heap, pc, site, thread};

/// A heap of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapDescription<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its lowest address.
    pub low: u64,
    /// One past its highest address.
    pub high: u64,
}

/// How much there is room for. A count for what the [`Shape`] leaves out is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// Live blocks.
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
    /// There must be room for at least one of what the shape records (two nodes of the trie). The name of the setting.
    TooFew(&'static str),
    /// More of something than the layout can hold. The name of the setting.
    TooMany(&'static str),
}

impl core::fmt::Display for ChipError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ChipError::TooSmall { needed, given } => {
                write!(f, "the ledger needs {needed} bytes and the region has {given}")
            }
            ChipError::TooFew(setting) => write!(f, "the ledger needs room for more: {setting}"),
            ChipError::TooMany(setting) => write!(f, "the ledger cannot hold so many: {setting}"),
        }
    }
}

impl core::error::Error for ChipError {}

/// Most records, sites and history entries: far more than a 32-bit address space has room for.
const ELEMENTS_MAX: u32 = 1 << 24;
const TASKS_MAX: u32 = 0xFFFE;
const HEAPS_MAX: u32 = 256;

impl<'a> Config<'a> {
    /// For a ledger of who holds which block. Add to it what else its shape records: `Config { history: 64, ..Config::minimal(100, 200) }`.
    pub const fn minimal(records: u32, sites: u32) -> Config<'a> {
        Config {
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
        }
    }

    /// Words that a ledger of this shape needs: the length of its region.
    pub const fn words<S: Shape>(&self) -> usize {
        Plan::new::<S>(self).bytes.div_ceil(S::WORD_BYTES)
    }

    /// Bytes of its header, descriptors and section table.
    pub const fn header_bytes<S: Shape>(&self) -> usize {
        Plan::new::<S>(self).header_bytes
    }

    /// Whether a ledger of this shape can hold so much.
    ///
    /// # Errors
    /// If there is to be less of something than a ledger needs, or more than its layout can hold.
    pub const fn check<S: Shape>(&self) -> Result<(), ChipError> {
        const fn least(first: u32, second: u32) -> u32 {
            if first < second { first } else { second }
        }
        let heaps = self.heaps.len() as u32;
        let limits = [
            ("records", true, self.records, 1, least(S::RECORDS_MAX, ELEMENTS_MAX)),
            ("sites", S::HAS_STACKS, self.sites, 2, least(S::SITES_MAX, ELEMENTS_MAX)),
            ("history", S::HAS_HISTORY, self.history, 1, ELEMENTS_MAX),
            ("tasks", S::HAS_TASKS, self.tasks, 1, least(S::TASKS_MAX, TASKS_MAX)),
            ("heaps", S::HAS_HEAPS, heaps, 1, least(S::HEAPS_MAX, HEAPS_MAX)),
        ];
        let mut at = 0usize;
        while at < limits.len() {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            let (name, is_recorded, count, at_least, at_most) = limits[at];
            if is_recorded && count < at_least {
                return Err(ChipError::TooFew(name));
            }
            if is_recorded && count > at_most {
                return Err(ChipError::TooMany(name));
            }
            at = at.wrapping_add(1);
        }
        Ok(())
    }
}

/// Where a section lies: its first word, and how many elements it has.
#[derive(Clone, Copy)]
pub(super) struct SectionPlace {
    pub(super) at: usize,
    pub(super) count: u32,
}

impl SectionPlace {
    const NONE: SectionPlace = SectionPlace { at: 0, count: 0 };

    /// The word with which an element of so many words begins.
    #[inline(always)]
    pub(super) const fn element(&self, index: u32, words: usize) -> usize {
        self.at.wrapping_add((index as usize).wrapping_mul(words))
    }
}

/// The sections that change as blocks come and go.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) records: SectionPlace,
    pub(super) history: SectionPlace,
    pub(super) sites: SectionPlace,
    pub(super) codes: SectionPlace,
    pub(super) index: SectionPlace,
    pub(super) tasks: SectionPlace,
}

/// Where everything lies.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) places: Places,
    pub(super) heaps: SectionPlace,
    pub(super) strings: SectionPlace,
    pub(super) process: SectionPlace,
    pub(super) sections: usize,
    pub(super) header_bytes: usize,
    pub(super) bytes: usize,
}

/// Bytes of an element of `tasks`, filled up to whole words.
pub(super) const fn task_bytes<S: Shape>() -> usize {
    thread::bytes(S::Word::SIZE).next_multiple_of(S::WORD_BYTES)
}

/// The same of `heaps`.
pub(super) const fn heap_bytes<S: Shape>() -> usize {
    heap::bytes(S::Word::SIZE).next_multiple_of(S::WORD_BYTES)
}

impl Plan {
    #[expect(clippy::indexing_slicing, reason = "below the lengths that are compared with")]
    pub(super) const fn new<S: Shape>(config: &Config) -> Plan {
        const fn if_wanted(is_wanted: bool, count: u32) -> u32 {
            if is_wanted { count } else { 0 }
        }
        let heaps = if_wanted(S::HAS_HEAPS, config.heaps.len() as u32);
        let mut strings = 0usize;
        let mut heap = 0;
        while heap < heaps as usize {
            strings = strings.saturating_add(config.heaps[heap].name.len());
            heap = heap.wrapping_add(1);
        }
        let history = if_wanted(S::HAS_HISTORY, config.history);
        let sites = if_wanted(S::HAS_STACKS, config.sites);
        let codes = if_wanted(S::HAS_CODES, config.sites);
        let tasks = if_wanted(S::HAS_TASKS, config.tasks);
        let counts = [config.records, history, sites, codes, tasks, heaps, strings as u32, config.process.len() as u32];
        // The index is always there.
        let mut sections = 1usize;
        let mut at = 0;
        while at < counts.len() {
            sections = sections.wrapping_add((counts[at] != 0) as usize);
            at = at.wrapping_add(1);
        }
        let header_bytes = S::ROWS_AT.wrapping_add(sections.wrapping_mul(S::ROW_BYTES));
        let word_bytes = S::WORD_BYTES;
        let mut end = header_bytes;
        let places = Places {
            records: place(&mut end, word_bytes, config.records, S::RECORD_WORDS.wrapping_mul(word_bytes)),
            history: place(&mut end, word_bytes, history, S::HISTORY_WORDS.wrapping_mul(word_bytes)),
            sites: place(&mut end, word_bytes, sites, site::BYTES),
            codes: place(&mut end, word_bytes, codes, pc::BYTES),
            // A quarter more cells than records keeps chains short; one more cell ends every search.
            index: place(
                &mut end,
                word_bytes,
                config.records.saturating_add(config.records / 4).saturating_add(1),
                S::CELL_BYTES,
            ),
            tasks: place(&mut end, word_bytes, tasks, task_bytes::<S>()),
        };
        let heaps = place(&mut end, word_bytes, heaps, heap_bytes::<S>());
        let strings = place(&mut end, word_bytes, strings as u32, 1);
        let process = place(&mut end, word_bytes, config.process.len() as u32, 1);
        Plan { places, heaps, strings, process, sections, header_bytes, bytes: end }
    }

    /// The sections in the order of the table: kind, place, bytes of an element, and whether all elements are in use. Records, history
    /// and tasks are handed out one by one, and a reader looks no further.
    pub(super) fn sections<S: Shape>(&self) -> [(SectionKind, SectionPlace, usize, bool); 9] {
        let places = &self.places;
        let record_bytes = S::RECORD_WORDS.wrapping_mul(S::WORD_BYTES);
        let history_bytes = S::HISTORY_WORDS.wrapping_mul(S::WORD_BYTES);
        [
            (SectionKind::Records, places.records, record_bytes, false),
            (SectionKind::History, places.history, history_bytes, false),
            (SectionKind::Sites, places.sites, site::BYTES, true),
            (SectionKind::Pcs, places.codes, pc::BYTES, true),
            (SectionKind::Index, places.index, S::CELL_BYTES, true),
            (SectionKind::Threads, places.tasks, task_bytes::<S>(), false),
            (SectionKind::Heaps, self.heaps, heap_bytes::<S>(), true),
            (SectionKind::Strings, self.strings, 1, true),
            (SectionKind::Process, self.process, 1, true),
        ]
    }
}

/// Gives a section its place behind all others.
#[inline]
const fn place(end: &mut usize, word_bytes: usize, count: u32, element_bytes: usize) -> SectionPlace {
    if count == 0 {
        return SectionPlace::NONE;
    }
    let within = word_bytes.wrapping_sub(1);
    let at = end.wrapping_add(within) & !within;
    *end = at.saturating_add((count as usize).saturating_mul(element_bytes));
    SectionPlace { at: at.wrapping_shr(word_bytes.trailing_zeros()), count }
}
