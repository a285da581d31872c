//! What a chip's ledger records, and how much there is room for.

use super::plan::{Plan, SectionPlan};
use super::room::Room;
use super::word::Word;
use heapledger_format::SectionKind;
use heapledger_format::record::Options;

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

/// A clock that counts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds of a tick; 0 if they have no known length.
    pub tick_ns: u32,
    /// How many bits it has: behind the highest number they can hold it goes on with 0.
    pub bits: u8,
}

/// What is recorded, and how much there is room for. **A count of 0 leaves out what it counts**, code and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// Live blocks. Below 255 the index has cells of one byte.
    pub records: u32,
    /// Nodes of the call-site trie, of which the first stands for no stack; 0: no call stacks.
    pub sites: u32,
    /// Entries of the history ring; 0: frees are not kept.
    pub history: u32,
    /// Tasks that get a row, interrupts together one; 0: who allocates is not recorded.
    pub tasks: u32,
    /// Most frames of a stack.
    pub depth: u16,
    /// So many of the innermost frames are left out: those of the firmware's own functions around the allocator. Of a stack without others
    /// the innermost stays. For whoever finds the frames.
    pub skip_frames: u8,
    /// So many of the outermost frames are left out, which all stacks have in common. For whoever finds the frames.
    pub cut_frames: u8,
    /// When so many records are in use for the first time, [`Shape::records_scarce`](super::Shape::records_scarce) is called; 0: never. 80 of 100, say.
    pub warn_records: u32,
    /// The largest size of a block that is kept exactly. Where the heap is small (65,534 bytes, say), size, call site and function
    /// share a word.
    pub largest_bytes: u64,
    /// Whether the bytes that blocks really have are recorded.
    pub actual_sizes: bool,
    /// Errors that are kept: what a guard has found, and what the firmware says; 0: none. Each takes 200 bytes.
    pub errors: u32,
    /// Heaps whose blocks are dressed, of which the ledger says where a reader finds what is known of them; 0: none are.
    pub guarded_heaps: u8,
    /// The clock, if times are recorded.
    pub clock: Option<Clock>,
    /// The heaps; none: which heap a block is in is not recorded.
    pub heaps: &'a [HeapDescription<'a>],
    /// What is known of the firmware: `key=value`, each ended by a zero byte. `build_id=TEXT` says of which build it is, if it is known when
    /// the firmware is compiled.
    pub process: &'a [u8],
    /// Bytes of the build id that the linker gives the firmware, as [`Shape::build_id`](super::Shape::build_id) finds it; 0: it is not asked. Each takes
    /// two bytes of the ledger.
    pub build_id_bytes: u8,
    /// ELF machine number; `EM_ARM` is 40.
    pub machine: u16,
    /// Identity of the build, or of this run of it.
    pub id: [u8; 16],
}

/// What a ledger takes of memory, in bytes, by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionBytes {
    /// The header, and what the recorder notes behind it.
    pub header: usize,
    /// Records of live blocks.
    pub records: usize,
    /// The index: from a block's address to its record.
    pub index: usize,
    /// The history ring.
    pub history: usize,
    /// Call stacks.
    pub sites: usize,
    /// Tasks, heaps, names, further counters.
    pub others: usize,
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
    /// There must be room for at least one of what is recorded (two nodes of the trie). The name of the setting.
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
const ERRORS_MAX: u32 = 1 << 16;
const DEPTH_MAX: u32 = 1 << 10;
const CLOCK_BITS_MAX: u32 = 32;

/// The number in ELF files of the machine that this is compiled for, where it is known.
const MACHINE: u16 = if cfg!(target_arch = "arm") {
    40
} else if cfg!(any(target_arch = "riscv32", target_arch = "riscv64")) {
    243
} else if cfg!(target_arch = "xtensa") {
    94
} else {
    0
};

impl<'a> Config<'a> {
    /// For a ledger of who holds which block. Add to it what else is to be recorded: `Config { history: 64, ..Config::minimal(100, 200) }`.
    pub const fn minimal(records: u32, sites: u32) -> Config<'a> {
        Config {
            records,
            sites,
            history: 0,
            tasks: 0,
            depth: 32,
            skip_frames: 0,
            cut_frames: 0,
            warn_records: 0,
            largest_bytes: u64::MAX,
            actual_sizes: false,
            errors: 0,
            guarded_heaps: 0,
            clock: None,
            heaps: &[],
            process: &[],
            build_id_bytes: 0,
            machine: MACHINE,
            id: [0; 16],
        }
    }

    /// What is recorded, as the header says it.
    pub const fn options(&self) -> Options {
        let wanted = [
            (self.actual_sizes, Options::ACTUAL_SIZE),
            (self.clock.is_some(), Options::TIME),
            (self.tasks != 0, Options::THREAD),
            (self.sites != 0, Options::STACK),
            (self.history != 0, Options::HISTORY),
            (!self.heaps.is_empty(), Options::HEAP),
        ];
        let (mut options, mut at) = (0, 0usize);
        while at < wanted.len() {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            let (is_wanted, option) = wanted[at];
            if is_wanted {
                options |= option;
            }
            at = at.wrapping_add(1);
        }
        Options(options)
    }

    /// Words that a ledger with words of this type needs: the length of its region.
    pub const fn words<W: Word>(&self) -> usize {
        Plan::new(self, W::SIZE).words
    }

    /// The bytes that it needs, by its parts, with words of this type.
    pub const fn region_bytes<W: Word>(&self) -> RegionBytes {
        const fn bytes(section: SectionPlan, word: usize) -> usize {
            (section.count as usize).saturating_mul(section.element_bytes).next_multiple_of(word)
        }
        let (plan, word) = (Plan::new(self, W::SIZE), W::SIZE.bytes());
        let header = plan.first.saturating_mul(word);
        let records = bytes(plan.section(SectionKind::Records), word);
        let index = bytes(plan.index, word);
        let history = bytes(plan.section(SectionKind::History), word);
        let sites =
            bytes(plan.section(SectionKind::Sites), word).saturating_add(bytes(plan.section(SectionKind::Pcs), word));
        let known = header.saturating_add(records).saturating_add(index).saturating_add(history).saturating_add(sites);
        let others = plan.words.saturating_mul(word).saturating_sub(known);
        RegionBytes { header, records, index, history, sites, others }
    }

    /// How much it has room for, and where, with words of this type.
    pub const fn room<W: Word>(&self) -> Room {
        Room::of(&Plan::new(self, W::SIZE))
    }

    /// Bytes of its header, descriptors and section table.
    pub const fn header_bytes<W: Word>(&self) -> usize {
        Plan::new(self, W::SIZE).header_bytes
    }

    /// Whether a ledger can hold so much.
    ///
    /// # Errors
    /// If there is to be less of something than a ledger needs, or more than its layout can hold.
    pub const fn check(&self) -> Result<(), ChipError> {
        let clock_bits = match self.clock {
            Some(clock) => clock.bits as u32,
            None => 1,
        };
        let limits = [
            ("records", self.records, 1, ELEMENTS_MAX),
            ("sites", self.sites, if self.sites == 0 { 0 } else { 2 }, ELEMENTS_MAX),
            ("history", self.history, 0, ELEMENTS_MAX),
            ("tasks", self.tasks, 0, TASKS_MAX),
            ("errors", self.errors, 0, ERRORS_MAX),
            ("heaps", self.heaps.len() as u32, 0, HEAPS_MAX),
            ("depth", self.depth as u32, 1, DEPTH_MAX),
            ("clock bits", clock_bits, 1, CLOCK_BITS_MAX),
        ];
        let mut at = 0usize;
        while at < limits.len() {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            let (name, count, at_least, at_most) = limits[at];
            if count < at_least {
                return Err(ChipError::TooFew(name));
            }
            if count > at_most {
                return Err(ChipError::TooMany(name));
            }
            at = at.wrapping_add(1);
        }
        Ok(())
    }
}
