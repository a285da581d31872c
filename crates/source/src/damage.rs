//! What of a ledger could not be read.

/// What of a ledger could not be read. All zero when it is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Pieces whose checksum, length or packing is wrong.
    pub pieces_lost: u64,
    /// Bytes between pieces that belong to none.
    pub bytes_skipped: u64,
    /// Where the file ends, if it ends before the ledger does.
    pub cut_at: Option<u64>,
    /// The checksum of the header is wrong: any figure may be.
    pub header: bool,
    /// Elements that the header counts and no readable piece holds.
    pub elements_missing: u64,
    /// Elements whose figures point out of the ledger.
    pub elements_wrong: u64,
}

impl Damage {
    /// Whether anything is wrong.
    pub fn is_any(&self) -> bool {
        *self != Damage::default()
    }
}
