//! Where everything lies: reckoned by the compiler, so that a place in the region is a number in an instruction.

use super::config::{Clock, Config};
use heapledger_format::bytes::WordSize;
use heapledger_format::chip_guard;
use heapledger_format::header::{counter_at, rows_at};
use heapledger_format::layout::{Descriptor, Field};
use heapledger_format::record::Options;
use heapledger_format::region::{index_cell_bytes, index_cells, note_words};
use heapledger_format::section::{counter, heap, pc, row, site, thread};
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter};

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

/// The fields that are recorded.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// In the order of the descriptors.
    wanted: [(Field, FieldPlace); FIELDS],
    pub(super) record_words: usize,
    pub(super) history_words: usize,
    word_bits: u32,
}

/// Bits that the numbers 0 to `max` need; at least 1.
const fn bits(max: u64) -> u8 {
    if max == 0 { 1 } else { u64::BITS.wrapping_sub(max.leading_zeros()) as u8 }
}

impl Fields {
    /// Puts each field that is wanted into the first word with room for it, those of a history entry behind the record.
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    const fn of(config: &Config, word_size: WordSize) -> Fields {
        const HISTORY: u32 = Options::HISTORY;
        let options = config.options();
        let is_wide = matches!(word_size, WordSize::W64);
        let word_bits = if is_wide { 64 } else { 32 };
        let (word, time, number) = if is_wide { (48, 44, 48) } else { (32, 32, 32) };
        let site = bits(config.sites.saturating_sub(1) as u64);
        // All ones stand for a size that is larger, and for a task without a row.
        let exact = bits(config.largest_bytes.saturating_add(1));
        let size = if exact < word { exact } else { word };
        let task = bits(config.tasks as u64);
        let heap = bits(config.heaps.len().saturating_sub(1) as u64);
        // The widest first: then, where words have 32 bits, the order of the fields is also their place.
        let fields = [
            (Field::Number, number, 0),
            (Field::Address, word, 0),
            (Field::Size, size, 0),
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
            if options.0 & needs == needs {
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
    pub(super) const fn at(&self, field: Field) -> FieldPlace {
        let mut at = 0usize;
        while at < FIELDS {
            if self.wanted[at].0 as u8 == field as u8 {
                return self.wanted[at].1;
            }
            at = at.wrapping_add(1);
        }
        FieldPlace::NONE
    }

    pub(super) const fn count(&self) -> usize {
        let (mut at, mut count) = (0usize, 0usize);
        while self.descriptor(at).is_some() {
            count = count.wrapping_add(1);
            at = at.wrapping_add(1);
        }
        count
    }

    /// What the header says of the field that is the `nth` of those that are recorded.
    pub(super) const fn descriptor(&self, nth: usize) -> Option<Descriptor> {
        let (mut at, mut seen) = (0usize, 0usize);
        while at < FIELDS {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            let (field, place) = self.wanted[at];
            if place.width_bits != 0 {
                if seen == nth {
                    return Some(Descriptor {
                        field: field as u8,
                        width_bits: place.width_bits,
                        at_bit: (place.word as u16)
                            .wrapping_mul(self.word_bits as u16)
                            .wrapping_add(place.shift as u16),
                    });
                }
                seen = seen.wrapping_add(1);
            }
            at = at.wrapping_add(1);
        }
        None
    }
}

/// A section: its first word, its elements, and bytes of one.
#[derive(Clone, Copy)]
pub(super) struct SectionPlan {
    pub(super) kind: SectionKind,
    pub(super) at: usize,
    pub(super) count: u32,
    pub(super) element_bytes: usize,
    /// All elements are in use. Records, history and tasks are handed out one by one, and a reader looks no further.
    pub(super) all_used: bool,
}

/// Counters that the header has not, in the order of their section: its list would have to go on to them. The last two only where there may be
/// errors.
pub(super) const FURTHER: [TallyCounter; 4] =
    [TallyCounter::LostBytes, TallyCounter::FreesBusy, TallyCounter::ErrorsLost, TallyCounter::GuardedLess];

/// How many of them a ledger has.
pub(super) const fn further_count(config: &Config) -> u32 {
    if config.errors == 0 && config.guarded_heaps == 0 { 2 } else { 4 }
}

/// Bytes of an error on a chip: it ends behind what was expected and found.
pub(super) const ERROR_BYTES: usize = 200;

/// Most sections.
pub(super) const SECTIONS: usize = 11;

/// Words that are nobody's business but the recorder's, between the header and the first section: they lie in the region so that nothing
/// lies beside it, and near its beginning, where an instruction reaches them.
#[derive(Clone, Copy)]
pub(super) struct Notes {
    /// The vacant slot to be taken next, plus 1; the others hang on it.
    pub(super) free: usize,
    /// Where the next history entry goes.
    pub(super) ring_next: usize,
    /// Nodes of the trie in use.
    pub(super) sites_full: usize,
    /// The clock when it was last read.
    pub(super) clock: usize,
    /// The task that called last, and its row plus 1.
    pub(super) task: usize,
    pub(super) row: usize,
}

/// Where everything lies.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) fields: Fields,
    pub(super) globals: usize,
    pub(super) counters: usize,
    /// In the order of the table; `sections` says how many.
    pub(super) table: [SectionPlan; SECTIONS],
    pub(super) sections: usize,
    /// The index, which is no section.
    pub(super) index: SectionPlan,
    pub(super) descriptors_at: usize,
    pub(super) rows_at: usize,
    pub(super) header_bytes: usize,
    pub(super) cell_bytes: usize,
    pub(super) notes: Notes,
    pub(super) clock: Option<Clock>,
    pub(super) depth: u16,
    pub(super) warn_records: u32,
    /// The first one behind the notes.
    pub(super) first: usize,
    /// Of the whole region.
    pub(super) words: usize,
}

impl Plan {
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    pub(super) const fn new(config: &Config, word: WordSize) -> Plan {
        let fields = Fields::of(config, word);
        let word_bytes = word.bytes();
        // A debugger that carries the history off notes how far it came.
        let globals = if config.history != 0 { GlobalCounter::HISTORY_COUNT } else { GlobalCounter::SMALL_COUNT };
        // Counters above can only move in a ledger that has what they count.
        let last = if config.tasks != 0 { TallyCounter::ThreadsUnnamed } else { TallyCounter::FailedCalls };
        let counters = globals.wrapping_add(last as usize).wrapping_add(1);
        let mut names_bytes = 0usize;
        let mut at = 0usize;
        while at < config.heaps.len() {
            names_bytes = names_bytes.saturating_add(config.heaps[at].name.len());
            at = at.wrapping_add(1);
        }
        let is_wide = matches!(word, WordSize::W64);
        let cell_bytes = index_cell_bytes(config.records);
        let cells = index_cells(config.records);
        let task_bytes = thread::bytes(word).next_multiple_of(word_bytes);
        let heap_bytes = heap::bytes(word).next_multiple_of(word_bytes);
        let wanted = [
            (SectionKind::Records, config.records, fields.record_words.wrapping_mul(word_bytes), false),
            (SectionKind::History, config.history, fields.history_words.wrapping_mul(word_bytes), false),
            (SectionKind::Sites, config.sites, site::BYTES, true),
            // Nodes of the trie have room for 32 bits: wider code addresses lie in a table of their own.
            (SectionKind::Pcs, if is_wide { config.sites } else { 0 }, pc::BYTES, true),
            (SectionKind::Threads, config.tasks, task_bytes, false),
            (SectionKind::Heaps, config.heaps.len() as u32, heap_bytes, true),
            (SectionKind::Strings, names_bytes as u32, 1, true),
            (SectionKind::Process, process_bytes(config) as u32, 1, true),
            (SectionKind::Counters, further_count(config), counter::bytes(word), true),
            // Right behind them: nobody tells where these are.
            (SectionKind::Errors, config.errors, ERROR_BYTES, false),
            (SectionKind::Guard, guard_rows(config), word_bytes.wrapping_mul(chip_guard::ROW_WORDS), true),
        ];
        let mut sections = 0usize;
        let mut at = 0usize;
        while at < SECTIONS {
            sections = sections.wrapping_add((wanted[at].1 != 0) as usize);
            at = at.wrapping_add(1);
        }
        let rows_at = rows_at(word, counters, fields.count());
        let header_bytes = rows_at.wrapping_add(sections.wrapping_mul(row::bytes(word)));
        let mut words = header_bytes.div_ceil(word_bytes);
        let notes = Notes {
            free: note(&mut words, true),
            ring_next: note(&mut words, config.history != 0),
            sites_full: note(&mut words, config.sites != 0),
            clock: note(&mut words, config.clock.is_some()),
            task: note(&mut words, config.tasks != 0),
            row: note(&mut words, config.tasks != 0),
        };
        let noted = words.wrapping_sub(header_bytes.div_ceil(word_bytes));
        assert!(noted == note_words(config.options()), "readers reckon with other notes");
        let first = words;
        let nothing = SectionPlan { kind: SectionKind::Records, at: 0, count: 0, element_bytes: 0, all_used: false };
        let mut table = [nothing; SECTIONS];
        let (mut next, mut at) = (0usize, 0usize);
        while at < SECTIONS {
            let (kind, count, element_bytes, all_used) = wanted[at];
            if count != 0 {
                table[next] = SectionPlan { kind, at: words, count, element_bytes, all_used };
                let bytes = (count as usize).saturating_mul(element_bytes);
                words = words.saturating_add(bytes.div_ceil(word_bytes));
                next = next.wrapping_add(1);
            }
            at = at.wrapping_add(1);
        }
        // Readers do not need it: it has no row.
        let index = SectionPlan {
            kind: SectionKind::Index,
            at: words,
            count: cells,
            element_bytes: cell_bytes,
            all_used: true,
        };
        words = words.saturating_add((cells as usize).saturating_mul(cell_bytes).div_ceil(word_bytes));
        Plan {
            fields,
            index,
            globals,
            counters,
            table,
            sections,
            descriptors_at: counter_at(word, counters),
            rows_at,
            header_bytes,
            cell_bytes,
            notes,
            clock: config.clock,
            depth: config.depth,
            warn_records: config.warn_records,
            first,
            words,
        }
    }

    /// The section of a kind; without elements if it is not there.
    pub(super) const fn section(&self, kind: SectionKind) -> SectionPlan {
        match self.nth(kind) {
            #[expect(clippy::indexing_slicing, reason = "a place in the table")]
            Some(nth) => self.table[nth],
            None => SectionPlan { kind, at: 0, count: 0, element_bytes: 0, all_used: false },
        }
    }

    /// Its place in the table.
    pub(super) const fn nth(&self, kind: SectionKind) -> Option<usize> {
        let mut at = 0usize;
        while at < self.sections {
            #[expect(clippy::indexing_slicing, reason = "below the array's length")]
            if self.table[at].kind as u16 == kind as u16 {
                return Some(at);
            }
            at = at.wrapping_add(1);
        }
        None
    }
}

/// Rows of the section `guard`: one of all, and one for each heap.
pub(super) const fn guard_rows(config: &Config) -> u32 {
    let heaps = config.guarded_heaps as u32;
    if heaps == 0 { 0 } else { heaps.wrapping_add(1) }
}

/// What stands before the build id in the section `process`.
pub(super) const BUILD_ID: &[u8] = b"build_id=";

/// Bytes of the section `process`: what is known when the firmware is compiled, and room for its build id in hexadecimal digits.
const fn process_bytes(config: &Config) -> usize {
    let digits = (config.build_id_bytes as usize).wrapping_mul(2);
    let more = if digits == 0 { 0 } else { BUILD_ID.len().wrapping_add(digits).wrapping_add(1) };
    config.process.len().wrapping_add(more)
}

/// A word for a note that is wanted.
const fn note(words: &mut usize, is_wanted: bool) -> usize {
    let at = *words;
    if is_wanted {
        *words = words.wrapping_add(1);
    }
    at
}
