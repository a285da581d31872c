//! Rows of heaps: those that are there from the start, and those that the program tells of.
#![forbid(unsafe_code)]

use crate::ledger::{CODEC, Ledger};
use crate::marks::NotTold;
use crate::shared::Shared;
use crate::{family, hooks};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{heap, heap_state};
use heapledger_linux::apart;

/// Most rows. A record has eight bits for its own, of which the highest number is an escape.
pub(crate) const ROWS_MAX: u64 = 255;

/// A heap's row in words.
pub(crate) type HeapWords = [AtomicU64; heap::bytes(WordSize::W64) / 8];

/// Enters a heap's row. `None`: there is no room.
pub(crate) fn enter(
    ledger: &Ledger,
    name_at: u64,
    name_bytes: usize,
    addresses: &Range<usize>,
    capabilities: u32,
) -> Option<u64> {
    let mut element = [0; heap::bytes(WordSize::W64)];
    let mut put = |field: fn(WordSize) -> usize, width, value| {
        CODEC.put(&mut element, field(WordSize::W64), width, value);
    };
    put(heap::name_at, 4, name_at);
    put(heap::name_bytes, 4, name_bytes as u64);
    put(heap::capabilities, 4, u64::from(capabilities));
    put(heap::low, 8, if addresses.is_empty() { u64::MAX } else { addresses.start as u64 });
    put(heap::high, 8, if addresses.is_empty() { 0 } else { addresses.end as u64 });
    put(heap::state, 4, u64::from(heap_state::IN_USE));
    ledger.enter(SectionKind::Heaps, &element)
}

/// A heap of the program's own begins. No addresses: they are nobody's but its blocks'.
///
/// # Errors
/// If nothing is recorded, there is no room, or its range may not lie where it does beside those of other heaps.
pub fn begin(shared: &'static Shared, name: &[u8], addresses: Range<usize>, capabilities: u32) -> Result<u8, NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    apart::result_of(Err(NotTold::NoRoom), || {
        let ledger = shared.ledger();
        let enter = || {
            let name = shared.texts.enter(ledger, name).ok_or(NotTold::NoRoom)?;
            let row = enter(ledger, name.at.into(), name.bytes.into(), &addresses, capabilities);
            row.and_then(|row| u8::try_from(row).ok()).ok_or(NotTold::NoRoom)
        };
        shared.heap_books.begin(&addresses, |row| state(shared, row) == heap_state::IN_USE, enter)
    })
}

/// One of [`heap_state`].
pub(crate) fn state(shared: &Shared, row: u32) -> u32 {
    let heaps = shared.ledger().section(SectionKind::Heaps);
    if u64::from(row) >= heaps.used() {
        return heap_state::VACANT;
    }
    let [first, ..]: &HeapWords = heaps.element(u64::from(row));
    first.load(Ordering::Acquire) as u32
}

/// Whether blocks may begin in a heap: it is the program's own, and not gone.
///
/// # Errors
/// If it is not so.
pub fn takes_blocks(shared: &'static Shared, row: u32) -> Result<(), NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let is_there = shared.heap_books.has(row) && state(shared, row) == heap_state::IN_USE;
    is_there.then_some(()).ok_or(NotTold::Unknown)
}

/// A heap of the program's own is gone. Its blocks stay as they are.
///
/// # Errors
/// If there is none in this row, or it is gone.
pub fn end(shared: &'static Shared, row: u32) -> Result<(), NotTold> {
    if !hooks::follows(shared) {
        return Err(NotTold::Off);
    }
    let heaps = shared.ledger().section(SectionKind::Heaps);
    if u64::from(row) >= heaps.used() {
        return Err(NotTold::Unknown);
    }
    let row: &HeapWords = heaps.element(u64::from(row));
    const STATE_AT: usize = heap::state(WordSize::W64);
    const { assert!(STATE_AT == 0, "the lower half of the first word") };
    let [first, ..] = row;
    let gone =
        |word: u64| (word as u32 == heap_state::IN_USE).then_some(word >> 32 << 32 | u64::from(heap_state::GONE));
    first.fetch_update(Ordering::AcqRel, Ordering::Acquire, gone).map(drop).map_err(|_| NotTold::Unknown)
}
