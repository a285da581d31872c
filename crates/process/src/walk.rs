//! A walk through what the ledger holds, from inside of the process: blocks in the order of their addresses or of their records,
//! heaps, threads, accounts. Nobody is held up by it; what changes meanwhile is seen as it was or as it is.
#![forbid(unsafe_code)]

use crate::cells;
use crate::heap_books::HeapBook;
use crate::heaps;
use crate::hooks;
use crate::index::Index;
use crate::ledger::CODEC;
use crate::look::whole_record;
use crate::marks::NotTold;
use crate::section::Section;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use heapledger_format::bytes::WordSize;
use heapledger_format::record::Options;
use heapledger_format::section::heap;
use heapledger_format::{Entry, SectionKind, ThreadRow};
use heapledger_recorder::backend::Slot;
use heapledger_recorder::inspect::heaps::HeapShape;

/// Bytes of a granule.
const GRANULE: u64 = 1 << cells::GRANULE_BITS;
/// Bytes of a heap's name that are told.
pub const NAME_BYTES: usize = 32;

/// A block that is live. Its order never changes, as that of all that is told here: other copies of this code, of other versions, ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BlockFacts {
    /// Where it begins.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that it really has, as far as is known.
    pub usable: u64,
    /// The number of its allocation: a higher one was later.
    pub number: u64,
    /// The row of its heap.
    pub heap: u32,
    /// The row of its thread, plus 1; 0: it has none.
    pub thread_plus_1: u32,
    /// The function that gave it.
    pub kind: u32,
    /// 1: its heap is one that the program has told of.
    pub is_of_own_heap: u32,
    /// The number of its call stack; 0: it has none, or the recorder is one that does not tell.
    pub site: u32,
    /// Nothing yet.
    pub spare: u32,
}

/// A heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapFacts {
    /// Its lowest address; of a heap that the program has not told of: the lowest that was seen.
    pub low: u64,
    /// One past its highest; the same: it has no range.
    pub end: u64,
    /// See [`flag`](crate::heap_books::flag).
    pub flags: u64,
    /// What its allocator takes.
    pub shape: HeapShape,
    /// Bytes asked for, blocks, bytes with what the allocator takes, the most of these, the most since the watch began.
    pub sums: [u64; 5],
    /// One of [`heap_state`](heapledger_format::section::heap_state).
    pub state: u32,
    /// Its capabilities.
    pub capabilities: u32,
    /// 1: the program has told of it.
    pub is_own: u32,
    /// Bytes of its name.
    pub name_bytes: u32,
    /// The beginning of that.
    pub name: [u8; NAME_BYTES],
}

impl HeapFacts {
    /// Of no heap.
    pub const NONE: HeapFacts = HeapFacts {
        low: 0,
        end: 0,
        flags: 0,
        shape: HeapShape { before: 0, after: 0, granule: 0, least: 0, first: 0, last: 0 },
        sums: [0; 5],
        state: 0,
        capabilities: 0,
        is_own: 0,
        name_bytes: 0,
        name: [0; NAME_BYTES],
    };

    /// Its name.
    pub fn name(&self) -> &[u8] {
        self.name.get(..self.name_bytes as usize).unwrap_or(&self.name)
    }

    /// Its addresses.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.low as usize..self.end as usize
    }
}

/// Which blocks, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Of the program's own heaps, upwards.
    OwnUp,
    /// The same downwards.
    OwnDown,
    /// Of all others, downwards.
    OthersDown,
}

impl Direction {
    /// By its number.
    pub fn of(number: u32) -> Option<Direction> {
        [Direction::OwnUp, Direction::OwnDown, Direction::OthersDown]
            .into_iter()
            .find(|direction| *direction as u32 == number)
    }
}

/// The block that begins first from `low` on and before `end`; downwards: last.
pub fn next_block(shared: &Shared, low: u64, end: u64, direction: Direction) -> Option<BlockFacts> {
    if !hooks::follows(shared) {
        return None;
    }
    let index = if direction == Direction::OthersDown { &shared.index } else { &shared.inner };
    let is_up = direction == Direction::OwnUp;
    let (mut low, mut end) = (low, end);
    while low < end {
        let (granule, cell) = if is_up { index.first_granule(low, end) } else { index.last_granule(low, end) }?;
        let from = granule.max(low)..granule.wrapping_add(GRANULE).min(end);
        if let Some(block) = in_granule(shared, index, cell, &from, is_up) {
            return Some(block);
        }
        if is_up {
            low = from.end;
        } else {
            end = from.start;
        }
    }
    None
}

fn in_granule(
    shared: &Shared,
    index: &Index,
    cell: u32,
    within: &core::ops::Range<u64>,
    is_up: bool,
) -> Option<BlockFacts> {
    let mut found: Option<BlockFacts> = None;
    cells::each_slot(index, cell, &mut |slot| {
        let Some(block) = facts(shared, slot).filter(|block| within.contains(&block.address)) else { return };
        let is_nearer = |known: BlockFacts| (block.address < known.address) == is_up;
        if found.is_none_or(is_nearer) {
            found = Some(block);
        }
    });
    found
}

/// The first record from a slot on that is of a live block, and its slot.
pub fn next_record(shared: &Shared, from: u64) -> Option<(u64, BlockFacts)> {
    if !hooks::follows(shared) {
        return None;
    }
    let used = shared.ledger().section(SectionKind::Records).used();
    (from..used).find_map(|slot| Some((slot, facts(shared, Slot(u32::try_from(slot).ok()?))?)))
}

fn facts(shared: &Shared, slot: Slot) -> Option<BlockFacts> {
    let records = shared.ledger().section(SectionKind::Records);
    if u64::from(slot.0) >= records.used() {
        return None;
    }
    let mut entry: Entry = whole_record(records, slot.0 as usize)?;
    shared.complete(&mut entry);
    let heap = u32::from(entry.heap.unwrap_or(0));
    let bytes = entry.size.unwrap_or(heapledger_format::record::SIZE_ESCAPE);
    let has_thread = shared.settings().options.has(Options::THREAD);
    let thread = entry.thread.filter(|row| has_thread && *row != ThreadRow::OTHER);
    Some(BlockFacts {
        address: entry.address,
        bytes,
        usable: entry.actual.unwrap_or(bytes).max(bytes),
        number: entry.number,
        heap,
        thread_plus_1: thread.map_or(0, |row| row.0.wrapping_add(1)),
        kind: u32::from(entry.kind.0),
        is_of_own_heap: u32::from(shared.heap_books.has(heap)),
        site: entry.site.0,
        spare: 0,
    })
}

/// What is known of a heap.
///
/// # Errors
/// If there is none in this row, or nothing is recorded.
pub fn heap(shared: &Shared, row: u32) -> Result<HeapFacts, NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let heaps = shared.ledger().section(SectionKind::Heaps);
    if u64::from(row) >= heaps.used().min(heaps::ROWS_MAX) {
        return Err(NotTold::Unknown);
    }
    const BYTES: usize = heap::bytes(WordSize::W64);
    let words: &heaps::HeapWords = heaps.element(u64::from(row));
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
    }
    let get = |field| heap::get(CODEC, &bytes, field);
    let mut facts = HeapFacts {
        state: get(heap::state) as u32,
        capabilities: get(heap::capabilities) as u32,
        low: get(heap::low),
        end: get(heap::high),
        ..HeapFacts::NONE
    };
    if facts.low >= facts.end {
        (facts.low, facts.end) = (0, 0);
    }
    if let Some(HeapBook { range: [low, end], flags, shape, sums }) = shared.heap_books.of(row) {
        let flags = if shared.sampling.is_on() { flags | crate::heap_books::flag::PARTIAL } else { flags };
        facts = HeapFacts { low, end, flags, shape, sums, is_own: 1, ..facts };
    }
    let name_bytes = (get(heap::name_bytes) as usize).min(NAME_BYTES);
    copy_text(shared.ledger().section(SectionKind::Strings), get(heap::name_at) as usize, &mut facts.name, name_bytes);
    facts.name_bytes = name_bytes as u32;
    Ok(facts)
}

fn copy_text(strings: &Section, at: usize, into: &mut [u8; NAME_BYTES], bytes: usize) {
    for (index, place) in into.iter_mut().enumerate().take(bytes) {
        let at = at.wrapping_add(index);
        *place = strings.word(at / 8).to_ne_bytes().get(at % 8).copied().unwrap_or(0);
    }
}
