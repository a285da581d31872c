//! Where the guard's tables are, for a reader outside that has nothing but this process's memory (`crates/format/src/guard.rs`).
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::guard::{ALL_WORDS, GuardTables};

static WORDS_HERE: [AtomicU64; ALL_WORDS] = [const { AtomicU64::new(0) }; ALL_WORDS];

/// Where the words lie.
pub(crate) fn address() -> u64 {
    WORDS_HERE.as_ptr() as u64
}

/// Says where the tables are, for good.
pub(crate) fn tell(tables: &GuardTables) {
    // The magic, which is the first of them, last: who sees it sees the others.
    for (place, word) in WORDS_HERE.iter().zip(tables.words()).rev() {
        place.store(word, Ordering::Release);
    }
}
