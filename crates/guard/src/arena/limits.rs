//! How much of an arena may be used, and how much is.

#![forbid(unsafe_code)]

/// How much is kept, and what is filled.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that freed blocks take which wait: their own, the least that lies around them, and
    /// [`Full::WAITING_BYTES`](crate::Full::WAITING_BYTES) for each.
    pub quarantine_bytes: u64,
    /// How many of them; never more than half of the queue's places.
    pub quarantine_blocks: u64,
    /// So many bytes of a block are filled at most, when it is made ([`Fill::Byte`](crate::Fill::Byte)) and when it is freed.
    pub fill_bytes_max: u64,
    /// What freed blocks are filled with.
    pub freed_fill: u8,
}

/// What an arena holds at this moment, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullCounts {
    /// Blocks that wait.
    pub waiting_blocks: u64,
    /// Their bytes, with the least that lies around them; what they have in the tables is counted there.
    pub waiting_bytes: u64,
    /// Rows that were ever used.
    pub slots: u64,
    /// Bytes of the range that were ever used.
    pub range_bytes: u64,
    /// Bytes of the tables that were.
    pub tables_bytes: u64,
    /// Blocks that were freed without waiting: larger than all that may wait, or the queue was full.
    pub not_kept: u64,
}

/// At which end of a block a closed page stands. Alignments of more than a page have one at both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Behind its last byte, or behind the slack that its alignment makes.
    EndsAtPage,
    /// In front of its first byte.
    BeginsAtPage,
}

/// How much is guarded.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLimits {
    /// Blocks that may be live at once. Where each costs two mappings, what of these there are decides.
    pub live_blocks: u64,
    /// Bytes of the pages of live blocks.
    pub live_bytes: u64,
    /// Freed blocks that are kept closed; never more than half of the queue's places.
    pub freed_blocks: u64,
    /// Bytes of their runs.
    pub freed_bytes: u64,
    /// So many bytes of a new block are filled at most, with [`Fill::Byte`](crate::Fill::Byte).
    pub fill_bytes_max: u64,
}

/// What an arena holds at this moment, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedCounts {
    /// Blocks that are live.
    pub live_blocks: u64,
    /// Bytes of their pages.
    pub live_bytes: u64,
    /// Freed blocks that are kept closed.
    pub freed_blocks: u64,
    /// Bytes of their runs.
    pub freed_bytes: u64,
    /// Rows that were ever used.
    pub slots: u64,
    /// Bytes of the range that were ever used.
    pub range_bytes: u64,
    /// Bytes of the tables that were.
    pub tables_bytes: u64,
    /// How often the system would not close pages. Their runs are not used before it does.
    pub not_closed: u64,
}
