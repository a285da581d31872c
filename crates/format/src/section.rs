//! The sections of a ledger and the elements that they hold.

use crate::bytes::{Codec, WordSize};

macro_rules! section_kinds {
    ($($(#[$doc:meta])* $id:ident = $number:literal, $name:literal;)*) => {
        /// What a section holds. A reader skips kinds that it does not know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum SectionKind { $($(#[$doc])* $id = $number),* }
        impl From<SectionKind> for u16 {
            fn from(kind: SectionKind) -> u16 {
                kind as u16
            }
        }
        impl SectionKind {
            /// All kinds of this version.
            pub const ALL: &'static [SectionKind] = &[$(SectionKind::$id),*];
            /// The kind of this number.
            pub const fn from_number(number: u16) -> Option<SectionKind> {
                match number { $($number => Some(SectionKind::$id),)* _ => None }
            }
            /// Its name in messages.
            pub const fn name(self) -> &'static str {
                match self { $(SectionKind::$id => $name),* }
            }
        }
    };
}

section_kinds! {
    /// One record per live block; fields by descriptor.
    Records = 1, "records";
    /// One entry per free, in a ring; fields by descriptor.
    History = 2, "history";
    /// Trie of call sites, see [`site`].
    Sites = 3, "sites";
    /// Code addresses by module, see [`pc`].
    Pcs = 4, "pcs";
    /// Threads or tasks, see [`thread`].
    Threads = 5, "threads";
    /// Heaps, see [`heap`].
    Heaps = 6, "heaps";
    /// Loaded modules, see [`module`].
    Modules = 7, "modules";
    /// Bytes that other sections point into.
    Strings = 8, "strings";
    /// Bytes: `key=value`, each ended by a zero byte. What is known of the process or the firmware.
    Process = 9, "process";
    /// Counters to be summed, see [`crate::counter::TallyCounter`].
    Tallies = 10, "tallies";
    /// Figures too large for a record, see [`wide`].
    Wide = 11, "wide";
    /// Address to record: the small hash of a chip. Not written on Linux.
    Index = 12, "index";
    /// Labels of blocks, see [`crate::label::Label`].
    Labels = 13, "labels";
    /// Moments that the program named, see [`crate::mark::Mark`].
    Marks = 14, "marks";
    /// Trace windows, see [`crate::mark::Window`].
    Windows = 15, "windows";
    /// What was found or refused, see [`crate::errors::ErrorEntry`].
    Errors = 16, "errors";
    /// Reserved: pairs of time and number.
    Anchors = 17, "anchors";
    /// Reserved: the full stream of events.
    Events = 18, "events";
    /// The label of each record, a row of `labels`: one number a slot of `records`, see [`label_column`].
    LabelColumn = 19, "label_column";
    /// What each thread holds of each heap, see [`crate::account::Account`].
    Accounts = 20, "accounts";
    /// What threads freed of others' and is not in the accounts yet, see [`crate::account::FreedOfOthers`].
    AccountFrees = 21, "account_frees";
    /// What was freed of each call site over the whole run, see [`crate::sums::Sum`].
    Sums = 22, "sums";
    /// Figures of the process over time, see [`crate::timeline::TimePoint`].
    Timeline = 23, "timeline";
    /// Where a fork lies in the numbers of the parent's threads, see [`crate::family::ForkCut`].
    Cut = 24, "cut";
    /// Frees of a parent's blocks, see [`crate::family::InheritedFree`].
    Inherited = 25, "inherited";
    /// Further counters of a small target, whose header has not all, see [`counter`].
    Counters = 26, "counters";
    /// Where in each thread's numbers the peak lies, see [`crate::sums::PeakCut`].
    PeakCuts = 27, "peak_cuts";
    /// Where what a chip's guard knows lies in its memory, see [`crate::chip_guard`].
    Guard = 28, "guard";
    /// For how long the blocks of each row of `sums` have lived, see [`crate::sums::Lifetimes`].
    Lifetimes = 29, "lifetimes";
    /// Places in the source of a program that an interpreter runs, see [`line`].
    Lines = 30, "lines";
}

/// The sections of a ledger in the order in which a copy reads them while its program runs: what refers to something comes before
/// that. Kinds that are not named here come between these and [`COPIED_LAST`]. The index is in neither: records move; and the labels of
/// records are read with these.
pub const COPIED_FIRST: &[SectionKind] = &[
    SectionKind::Records,
    SectionKind::Lifetimes,
    SectionKind::Sums,
    SectionKind::PeakCuts,
    SectionKind::History,
    SectionKind::Tallies,
    SectionKind::Wide,
    SectionKind::Sites,
    SectionKind::Pcs,
    SectionKind::Lines,
    SectionKind::Modules,
    SectionKind::Heaps,
    SectionKind::Threads,
    SectionKind::Errors,
    SectionKind::Inherited,
    SectionKind::AccountFrees,
    SectionKind::Accounts,
    SectionKind::Timeline,
    SectionKind::Marks,
    SectionKind::Windows,
    SectionKind::Labels,
];
/// See [`COPIED_FIRST`].
pub const COPIED_LAST: &[SectionKind] = &[SectionKind::Strings, SectionKind::Process];

/// One row of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SectionRow {
    /// Number of the kind; see [`SectionKind::from_number`].
    pub kind: u16,
    /// Bytes of one element.
    pub element_bytes: u16,
    /// Where element 0 lies, in bytes from the start of the ledger. Unused in a finished ledger.
    pub offset: u64,
    /// Elements that there is address room for.
    pub capacity: u64,
    /// Elements handed out so far: a reader looks no further. May be above `backed` for a moment.
    pub used: u64,
    /// Elements that have storage behind them: touching one above allocates, or is a fault.
    pub backed: u64,
}

/// Bytes of a section row, and where its parts lie.
pub mod row {
    use crate::bytes::WordSize;
    /// Bytes of a row: 20 or 40.
    pub const fn bytes(word: WordSize) -> usize {
        word_at(word, 4)
    }
    /// Kind, 2 bytes.
    pub const KIND: usize = 0;
    /// Element size, 2 bytes.
    pub const ELEMENT_BYTES: usize = 2;
    const fn word_at(word: WordSize, index: usize) -> usize {
        let words_at: usize = if word.bytes() == 8 { 8 } else { 4 };
        words_at.saturating_add(index.saturating_mul(word.bytes()))
    }
    /// Offset, one word.
    pub const fn offset(word: WordSize) -> usize {
        word_at(word, 0)
    }
    /// Capacity, one word.
    pub const fn capacity(word: WordSize) -> usize {
        word_at(word, 1)
    }
    /// Used, one word.
    pub const fn used(word: WordSize) -> usize {
        word_at(word, 2)
    }
    /// Backed, one word.
    pub const fn backed(word: WordSize) -> usize {
        word_at(word, 3)
    }
}

impl SectionRow {
    /// Reads a row.
    pub fn read(codec: Codec, bytes: &[u8]) -> SectionRow {
        let word = codec.word;
        SectionRow {
            kind: codec.u16(bytes, row::KIND),
            element_bytes: codec.u16(bytes, row::ELEMENT_BYTES),
            offset: codec.word(bytes, row::offset(word)),
            capacity: codec.word(bytes, row::capacity(word)),
            used: codec.word(bytes, row::used(word)),
            backed: codec.word(bytes, row::backed(word)),
        }
    }

    /// Writes a row; false if there is no room.
    pub fn write(&self, codec: Codec, bytes: &mut [u8]) -> bool {
        let word = codec.word;
        codec.put(bytes, row::KIND, 2, u64::from(self.kind))
            && codec.put(bytes, row::ELEMENT_BYTES, 2, u64::from(self.element_bytes))
            && codec.put(bytes, row::offset(word), word.bytes(), self.offset)
            && codec.put(bytes, row::capacity(word), word.bytes(), self.capacity)
            && codec.put(bytes, row::used(word), word.bytes(), self.used)
            && codec.put(bytes, row::backed(word), word.bytes(), self.backed)
    }
}

/// The label of a record's block, beside the record.
pub mod label_column {
    /// Bytes of an element: the row in `labels`, 0 for none.
    pub const BYTES: usize = 4;
}

/// A counter that the header's list is too short for.
pub mod counter {
    use crate::bytes::WordSize;
    /// Bytes of an element.
    pub const fn bytes(word: WordSize) -> usize {
        word.bytes().saturating_mul(2)
    }
    /// The number of the [`TallyCounter`](crate::TallyCounter), one word.
    pub const NUMBER: usize = 0;
    /// What is to be added to it, one word.
    pub const fn amount(word: WordSize) -> usize {
        word.bytes()
    }
}

/// A node of the call-site trie: a stack is the path from the node to the root, innermost frame first.
/// Node 0 stands for no stack. Without a `pcs` section the code is an address, else an id in `pcs`.
pub mod site {
    /// Bytes of a node.
    pub const BYTES: usize = 8;
    /// The caller's node, 4 bytes; 0 in the outermost frame.
    pub const PARENT: usize = 0;
    /// The code, 4 bytes.
    pub const CODE: usize = 4;
}

pub use crate::pc;

/// A place in the source of a program that an interpreter runs. 16 bytes on every target; written before anything refers to it.
pub mod line {
    /// Bytes of an element.
    pub const BYTES: usize = 16;
    /// Where the file's path lies in strings, 4 bytes.
    pub const FILE_AT: usize = 0;
    /// Where the function's name lies in strings, 4 bytes.
    pub const FUNCTION_AT: usize = 4;
    /// Bytes of the path, 2.
    pub const FILE_BYTES: usize = 8;
    /// Bytes of the name, 2.
    pub const FUNCTION_BYTES: usize = 10;
    /// The line, from 1; 0 if none is known. 4 bytes.
    pub const LINE: usize = 12;
}

/// Exact figures of a block whose record says "all ones". 32 bytes, 8-byte numbers on every target.
pub mod wide {
    /// Bytes of an element.
    pub const BYTES: usize = 32;
    /// Number of the allocation plus 1; 0 while vacant or being written.
    pub const NUMBER: usize = 0;
    /// Bytes asked for.
    pub const SIZE: usize = 8;
    /// Actual bytes.
    pub const ACTUAL: usize = 16;
}

#[inline(always)]
const fn words_and(words: usize, word: WordSize, bytes: usize) -> usize {
    words.saturating_mul(word.bytes()).saturating_add(bytes)
}

macro_rules! element {
    ($(#[$doc:meta])* $module:ident ($size_words:literal words + $size_bytes:literal) { $( $(#[$field_doc:meta])* $name:ident: $words:literal words + $bytes:literal, $width:ident; )* }) => {
        $(#[$doc])*
        pub mod $module {
            use super::words_and;
            use crate::bytes::{Codec, WordSize};
            #[allow(non_snake_case, reason = "one constant-like function per field")]
            mod places {
                use super::*;
                $( $(#[$field_doc])* #[inline(always)] pub const fn $name(word: WordSize) -> usize { words_and($words, word, $bytes) } )*
            }
            pub use places::*;
            /// Bytes of an element, before rounding up to what the writer likes.
            pub const fn bytes(word: WordSize) -> usize { words_and($size_words, word, $size_bytes) }
            /// Reads one number of an element.
            pub fn get(codec: Codec, element: &[u8], field: fn(WordSize) -> usize) -> u64 {
                let at = field(codec.word);
                $( if at == $name(codec.word) { return element!(@get codec, element, at, $width); } )*
                0
            }
        }
    };
    (@get $codec:ident, $element:ident, $at:ident, u8) => { $codec.number($element, $at, 1) };
    (@get $codec:ident, $element:ident, $at:ident, u16) => { $codec.number($element, $at, 2) };
    (@get $codec:ident, $element:ident, $at:ident, u32) => { $codec.number($element, $at, 4) };
    (@get $codec:ident, $element:ident, $at:ident, word) => { $codec.word($element, $at) };
    (@get $codec:ident, $element:ident, $at:ident, raw) => {{ let _ = $element; $at as u64 }};
}

element! {
    /// A thread or task. A gone one keeps its row.
    thread (5 words + 24) {
        /// 0 vacant, 1 alive, 2 gone.
        state: 0 words + 0, u32;
        /// Kernel thread id; on a chip the task's number.
        id: 0 words + 4, u32;
        /// What the program knows it by: `pthread_self()`, a task handle.
        handle: 0 words + 8, word;
        /// First seen, in ticks.
        started: 1 words + 8, word;
        /// 16 bytes, filled up with zeros.
        name: 2 words + 8, raw;
        /// Blocks that it allocated.
        allocations: 2 words + 24, word;
        /// Blocks that it freed, its own or others'.
        frees: 3 words + 24, word;
        /// Requested bytes of the blocks that it allocated.
        bytes_allocated: 4 words + 24, word;
    }
}

element! {
    /// A heap. A Linux process has several: the `brk` range, the arenas, large mappings.
    heap (2 words + 16) {
        /// One of [`super::heap_state`].
        state: 0 words + 0, u32;
        /// Where its name lies in `strings`.
        name_at: 0 words + 4, u32;
        /// Bytes of the name.
        name_bytes: 0 words + 8, u32;
        /// Capability bits, as the program gave them.
        capabilities: 0 words + 12, u32;
        /// Lowest address known to belong to it.
        low: 0 words + 16, word;
        /// One past the highest address known to belong to it.
        high: 1 words + 16, word;
    }
}

element! {
    /// What is known of a heap itself, behind the rest of its row; a row may end before. All ones: not known.
    heap_figures (12 words + 16) {
        /// Bytes that it manages, its own bookkeeping included.
        total: 2 words + 16, word;
        /// Bytes that are free.
        free: 3 words + 16, word;
        /// The least that was free ever.
        least_free: 4 words + 16, word;
        /// The least that was free since somebody asked to watch it.
        least_free_since: 5 words + 16, word;
        /// Bytes of the largest block that it could give.
        largest_free: 6 words + 16, word;
        /// Bytes in blocks that are given out.
        allocated: 7 words + 16, word;
        /// Blocks that are given out.
        blocks: 8 words + 16, word;
        /// Blocks that are free.
        free_blocks: 9 words + 16, word;
        /// Calls that it could not serve.
        failures: 10 words + 16, word;
        /// When all that was noted, in ticks.
        noted: 11 words + 16, word;
    }
}

/// States of a heap's row.
pub mod heap_state {
    /// No heap.
    pub const VACANT: u32 = 0;
    /// In use.
    pub const IN_USE: u32 = 1;
    /// Gone; its row stays.
    pub const GONE: u32 = 2;
}

element! {
    /// A loaded module, for as long as it stayed loaded: unloading and loading again makes a new row.
    module (3 words + 48) {
        /// What was added to the addresses in the file: load bias.
        bias: 0 words + 0, word;
        /// First mapped address.
        low: 1 words + 0, word;
        /// One past the last mapped address.
        high: 2 words + 0, word;
        /// How often code had been unloaded when it was first seen.
        generation: 3 words + 0, u32;
        /// Where its path lies in `strings`.
        path_at: 3 words + 4, u32;
        /// Bytes of the path.
        path_bytes: 3 words + 8, u32;
        /// Bytes of the build id, 0 if it has none.
        build_id_bytes: 3 words + 12, u32;
        /// The build id, at most 32 bytes.
        build_id: 3 words + 16, raw;
    }
}

/// States of a thread's row: the two low bits of the word. Those above say of a thread that is gone when that was noticed.
pub mod thread_state {
    use crate::ids::Ticks;

    /// No thread.
    pub const VACANT: u32 = 0;
    /// Not known to be gone.
    pub const ALIVE: u32 = 1;
    /// Gone; its figures stay.
    pub const GONE: u32 = 2;
    /// It was there when the program began to end.
    pub const AT_EXIT: u32 = 3;
    /// The bits of the state.
    const BITS: u32 = 2;
    /// Ticks in a unit of the time that is kept with it, as a power of two: 44 bits of ticks in 30 bits.
    const UNIT: u32 = 14;

    /// The state in a word.
    pub const fn of(word: u32) -> u32 {
        word & ((1 << BITS) - 1)
    }

    /// The word of a thread that was gone at this time; rounded up.
    pub const fn gone_by(time: Ticks) -> u32 {
        let units = (time.0 >> UNIT).saturating_add(1);
        let most = (u32::MAX >> BITS) as u64;
        let units = if units < most { units } else { most };
        GONE | (units as u32) << BITS
    }

    /// By when a thread with this word was gone; `None` if it is not or nobody noted it.
    pub const fn ended_by(word: u32) -> Option<Ticks> {
        match word >> BITS {
            0 => None,
            units if of(word) == GONE => Some(Ticks((units as u64) << UNIT)),
            _ => None,
        }
    }
}

/// Longest build id that a module's row holds.
pub const BUILD_ID_BYTES_MAX: usize = 32;
/// Bytes of a thread's name.
pub const THREAD_NAME_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::thread_state::{ALIVE, AT_EXIT, GONE, VACANT, ended_by, gone_by, of};
    use crate::ids::Ticks;

    #[test]
    fn the_end_of_a_thread_is_kept_rounded_up() {
        for ticks in [0, 1, 16_383, 16_384, 400_000, 1 << 30, (1 << 44) - 20_000] {
            let by = ended_by(gone_by(Ticks(ticks))).expect("a time").0;
            assert!(by > ticks && by - ticks <= 16_384 && of(gone_by(Ticks(ticks))) == GONE, "{ticks}: {by}");
        }
        assert_eq!(of(gone_by(Ticks(u64::MAX))), GONE);
        assert_eq!([VACANT, ALIVE, GONE, AT_EXIT].map(ended_by), [None; 4]);
        assert_eq!(ended_by(AT_EXIT | 4 << 2), None);
    }
}
