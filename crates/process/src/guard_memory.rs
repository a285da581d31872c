//! What the guard takes beside what lies around blocks.
#![forbid(unsafe_code)]

use crate::arenas;
use crate::guarded::GUARD;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use heapledger_format::GlobalCounter;

/// Enters it; its bytes of memory in all.
#[cold]
pub(crate) fn measure(shared: &Shared) -> u64 {
    if !GUARD.is_on() {
        return 0;
    }
    let (full, closed) = arenas::counts();
    let tables_bytes = [GUARD.bitmap_bytes(), full.tables_bytes, closed.tables_bytes].iter().sum();
    for (counter, value) in [
        (GlobalCounter::GuardTablesBytes, tables_bytes),
        (GlobalCounter::GuardWaitingBlocks, full.waiting_blocks),
        (GlobalCounter::GuardWaitingBytes, full.waiting_bytes),
        (GlobalCounter::GuardClosedBlocks, closed.freed_blocks),
        (GlobalCounter::GuardClosedBytes, closed.freed_bytes),
    ] {
        shared.ledger().global(counter).store(value, Ordering::Relaxed);
    }
    tables_bytes.saturating_add(full.waiting_bytes)
}
