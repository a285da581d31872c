//! The small tables: threads, heaps, modules, totals.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use heapledger_format::bytes::Codec;
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::section::{
    BUILD_ID_BYTES_MAX, THREAD_NAME_BYTES, counter, heap, heap_figures, heap_state, module, thread, thread_state,
};
use heapledger_format::{Kind, SectionKind, TallyCounter, ThreadRow, Ticks};

use crate::SourceError;
use crate::ledger::Ledger;

/// Longest name or path that is read.
const NAME_BYTES_MAX: u64 = 4096;
/// Most rows of one table: numbers of rows are 16 bits wide in the widest record.
const ROWS_MAX: u64 = 1 << 16;

/// Takes the element of a row apart; `None` if the row is vacant.
type ReadRow<'a, T> = dyn FnMut(u32, &[u8]) -> Result<Option<T>, SourceError> + 'a;

/// Hears of a row: its number and its element.
pub(crate) type EachRow<'a> = dyn FnMut(u32, &[u8]) -> Result<(), SourceError> + 'a;

/// Whether a thread is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// Not known to be gone: running, or alive when its process ended.
    Alive,
    /// There when the program began to end, with `exit` or the end of `main`.
    AtExit,
    /// Gone; its figures stay.
    Gone,
}

/// A thread or task that allocated or freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Row in the table; records name a thread by it.
    pub row: ThreadRow,
    /// Whether it is still there.
    pub state: ThreadState,
    /// Kernel thread id, or the task's number.
    pub id: u32,
    /// What the program knows it by.
    pub handle: u64,
    /// First seen.
    pub started: Ticks,
    /// If it is gone and that was noted: a time by which it had ended. Not long before, as a rule: other threads
    /// look now and then.
    pub ended_by: Option<Ticks>,
    /// Its name, perhaps empty.
    pub name: String,
    /// Blocks that it allocated.
    pub allocations: u64,
    /// Blocks that it freed.
    pub frees: u64,
    /// Bytes that it asked for.
    pub bytes_allocated: u64,
}

/// A heap: a part of the address space that blocks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Row in the table; records name a heap by it.
    pub row: u32,
    /// Its name, perhaps empty.
    pub name: String,
    /// Lowest address known to belong to it.
    pub low: u64,
    /// One past the highest address known to belong to it.
    pub high: u64,
    /// Capability bits, as the program gave them.
    pub capabilities: u32,
    /// Whether it is gone; its row stays.
    pub gone: bool,
    /// What it knows of itself, if that is recorded.
    pub figures: Option<HeapFigures>,
}

/// What a heap knows of itself; what is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapFigures {
    /// Bytes that it manages, its own bookkeeping included.
    pub total: Option<u64>,
    /// Bytes that are free.
    pub free: Option<u64>,
    /// The least that was free ever.
    pub least_free: Option<u64>,
    /// The least that was free since somebody asked to watch it.
    pub least_free_since: Option<u64>,
    /// Bytes of the largest block that it could give.
    pub largest_free: Option<u64>,
    /// Bytes in blocks that are given out.
    pub allocated: Option<u64>,
    /// Blocks that are given out.
    pub blocks: Option<u64>,
    /// Blocks that are free.
    pub free_blocks: Option<u64>,
    /// Calls that it could not serve.
    pub failures: Option<u64>,
    /// When all that was noted.
    pub noted: Option<Ticks>,
}

impl HeapFigures {
    /// Of a row; `None` if it ends before.
    fn read(codec: Codec, row: &[u8]) -> Option<HeapFigures> {
        let not_known = u64::MAX >> (64 - codec.word.bits());
        let get = |place| Some(heap_figures::get(codec, row, place)).filter(|figure| *figure != not_known);
        (row.len() >= heap_figures::bytes(codec.word)).then(|| HeapFigures {
            total: get(heap_figures::total),
            free: get(heap_figures::free),
            least_free: get(heap_figures::least_free),
            least_free_since: get(heap_figures::least_free_since),
            largest_free: get(heap_figures::largest_free),
            allocated: get(heap_figures::allocated),
            blocks: get(heap_figures::blocks),
            free_blocks: get(heap_figures::free_blocks),
            failures: get(heap_figures::failures),
            noted: get(heap_figures::noted).map(Ticks),
        })
    }
}

/// A module: an executable, a shared library, the vdso.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Row in the table.
    pub row: u16,
    /// Where it was loaded from.
    pub path: PathBuf,
    /// Its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Load bias.
    pub bias: u64,
    /// First mapped address.
    pub low: u64,
    /// One past the last mapped address.
    pub high: u64,
    /// How often code had been unloaded when it was first seen.
    pub generation: u32,
}

/// Totals of the whole recording, summed over all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallies {
    counters: [u64; TallyCounter::COUNT],
    begun: [u64; KIND_LIMIT],
    ended: [u64; KIND_LIMIT],
}

impl Tallies {
    /// One of the totals.
    pub fn get(&self, counter: TallyCounter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// Blocks begun by each kind that began any.
    pub fn begun(&self) -> BTreeMap<u8, u64> {
        Self::by_kind(&self.begun, Kind)
    }

    /// Blocks ended by each kind that ended any.
    pub fn ended(&self) -> BTreeMap<u8, u64> {
        Self::by_kind(&self.ended, Kind::ended_by)
    }

    fn by_kind(counts: &[u64], kind: fn(u8) -> Kind) -> BTreeMap<u8, u64> {
        let counts = counts.iter().enumerate().filter(|(_, count)| **count != 0);
        counts.map(|(number, count)| (kind(number as u8).0, *count)).collect()
    }
}

impl Ledger {
    /// The threads that have a row, by row.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn threads(&self) -> Result<Vec<Thread>, SourceError> {
        let codec = self.header().codec;
        self.rows(SectionKind::Threads, thread::bytes(codec.word), &mut |row, bytes| {
            let get = |field| thread::get(codec, bytes, field);
            let word = get(thread::state) as u32;
            let state = match thread_state::of(word) {
                thread_state::VACANT => return Ok(None),
                thread_state::ALIVE => ThreadState::Alive,
                thread_state::AT_EXIT => ThreadState::AtExit,
                _ => ThreadState::Gone,
            };
            let name_at = thread::name(codec.word);
            let name = bytes.get(name_at..name_at + THREAD_NAME_BYTES).unwrap_or(&[]);
            let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            Ok(Some(Thread {
                row: ThreadRow(row),
                state,
                id: get(thread::id) as u32,
                handle: get(thread::handle),
                started: Ticks(get(thread::started)),
                ended_by: thread_state::ended_by(word),
                name: String::from_utf8_lossy(name).into_owned(),
                allocations: get(thread::allocations),
                frees: get(thread::frees),
                bytes_allocated: get(thread::bytes_allocated),
            }))
        })
    }

    /// The heaps, by row.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn heaps(&self) -> Result<Vec<Heap>, SourceError> {
        let codec = self.header().codec;
        self.rows(SectionKind::Heaps, heap::bytes(codec.word), &mut |row, bytes| {
            let get = |field| heap::get(codec, bytes, field);
            let state = get(heap::state) as u32;
            if state == heap_state::VACANT {
                return Ok(None);
            }
            let name = self.string(get(heap::name_at), get(heap::name_bytes))?;
            let name = String::from_utf8_lossy(&name).into_owned();
            Ok(Some(Heap {
                row,
                name,
                low: get(heap::low),
                high: get(heap::high),
                capabilities: get(heap::capabilities) as u32,
                gone: state == heap_state::GONE,
                figures: HeapFigures::read(codec, bytes),
            }))
        })
    }

    /// The modules, by row.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn modules(&self) -> Result<Vec<Module>, SourceError> {
        let codec = self.header().codec;
        self.rows(SectionKind::Modules, module::bytes(codec.word), &mut |row, bytes| {
            let get = |field| module::get(codec, bytes, field);
            let path = self.string(get(module::path_at), get(module::path_bytes))?;
            let id_at = module::build_id(codec.word);
            let id_bytes = (get(module::build_id_bytes) as usize).min(BUILD_ID_BYTES_MAX);
            Ok(Some(Module {
                row: row as u16,
                path: PathBuf::from(OsString::from_vec(path)),
                build_id: bytes.get(id_at..id_at + id_bytes).unwrap_or(&[]).to_vec(),
                bias: get(module::bias),
                low: get(module::low),
                high: get(module::high),
                generation: get(module::generation) as u32,
            }))
        })
    }

    /// Totals as they are now: the header's share and that of every thread.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn tallies(&self) -> Result<Tallies, SourceError> {
        let header = self.current_header()?;
        let mut tallies =
            Tallies { counters: [0; TallyCounter::COUNT], begun: [0; KIND_LIMIT], ended: [0; KIND_LIMIT] };
        for (sum, counter) in tallies.counters.iter_mut().zip(TallyCounter::ALL) {
            *sum = header.tally(*counter);
        }
        let element_bytes = self.element_bytes(SectionKind::Tallies);
        let codec = header.codec;
        let word_bytes = codec.word.bytes();
        self.for_each_chunk(SectionKind::Tallies, &mut |_, bytes| {
            for element in bytes.chunks_exact(element_bytes) {
                let add = |sums: &mut [u64], first: usize| {
                    for (index, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.wrapping_add(codec.word(element, (first + index) * word_bytes));
                    }
                };
                add(&mut tallies.counters, 0);
                add(&mut tallies.begun, TALLY_KINDS_AT);
                add(&mut tallies.ended, TALLY_KINDS_AT + KIND_LIMIT);
            }
            Ok(())
        })?;
        const { assert!(TALLY_WORDS == TALLY_KINDS_AT + 2 * KIND_LIMIT) };
        let element_bytes = self.element_bytes(SectionKind::Counters);
        if element_bytes >= counter::bytes(codec.word) {
            self.for_each_chunk(SectionKind::Counters, &mut |_, bytes| {
                for element in bytes.chunks_exact(element_bytes) {
                    let number = usize::try_from(codec.word(element, counter::NUMBER)).unwrap_or(usize::MAX);
                    if let Some(sum) = tallies.counters.get_mut(number) {
                        *sum = sum.wrapping_add(codec.word(element, counter::amount(codec.word)));
                    }
                }
                Ok(())
            })?;
        }
        Ok(tallies)
    }

    /// Text in `strings`, as far as it is there.
    pub(crate) fn text_at(&self, at: u64, bytes: u64) -> Result<String, SourceError> {
        Ok(String::from_utf8_lossy(&self.string(at, bytes)?).into_owned())
    }

    pub(crate) fn string(&self, at: u64, bytes: u64) -> Result<Vec<u8>, SourceError> {
        self.byte_range(SectionKind::Strings, at, bytes.min(NAME_BYTES_MAX))
    }

    fn rows<T>(&self, kind: SectionKind, needed: usize, read: &mut ReadRow<'_, T>) -> Result<Vec<T>, SourceError> {
        let mut rows = Vec::new();
        self.each_row(kind, needed, ROWS_MAX, &mut |row, element| {
            rows.extend(read(row, element)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `each` with the first `most` rows of a table and their numbers.
    pub(crate) fn each_row(
        &self,
        kind: SectionKind,
        needed: usize,
        most: u64,
        each: &mut EachRow<'_>,
    ) -> Result<(), SourceError> {
        let element_bytes = self.element_bytes(kind);
        if element_bytes < needed {
            self.count_wrong(u64::from(element_bytes != 0));
            return Ok(());
        }
        self.for_each_chunk(kind, &mut |first, bytes| {
            for (index, element) in bytes.chunks_exact(element_bytes).enumerate() {
                let row = first.saturating_add(index as u64);
                if row >= most {
                    break;
                }
                each(row as u32, element)?;
            }
            Ok(())
        })
    }
}
