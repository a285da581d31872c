//! What `heapledger attach` and the library that it opens in a program that runs say to each other.
//!
//! It lies on the stack of the thread that is made to open the library, above the frames of `dlopen`: `attach` has put it there, the
//! library's constructor looks for it, and answers in it. It holds its own address, so that it is not taken for what an earlier one
//! has left behind. All words are in the order of the machine; text is bytes.

/// How it begins: two words.
pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"heapledg"), u64::from_le_bytes(*b"er opens")];
/// It begins at a multiple of this.
pub const ALIGN: usize = 16;
/// So far above the stack pointer of the library's constructor it may lie: what `dlopen` has on the stack is a few KiB.
pub const REACH: usize = 64 << 10;

/// Offsets of its words.
pub mod at {
    /// Its own address.
    pub const ADDRESS: usize = 16;
    /// What became of it: one of [`state`](super::state).
    pub const STATE: usize = 24;
    /// The loader's `struct link_map` of the executable.
    pub const FIRST_MODULE: usize = 32;
    /// The same of the library.
    pub const OWN_MODULE: usize = 40;
    /// Words of the program's modules that lead to the library's functions now.
    pub const REBOUND: usize = 48;
    /// The same that could not be changed.
    pub const NOT_REBOUND: usize = 56;
    /// Bytes of the reason.
    pub const REASON_BYTES: usize = 64;
    /// Bytes of the words.
    pub const WORDS_BYTES: usize = 72;
    /// Why nothing is recorded.
    pub const REASON: usize = 80;
    /// What is asked for: as a value of [`session::VARIABLE`](crate::session::VARIABLE).
    pub const WORDS: usize = REASON + super::REASON_BYTES_MAX;
}

/// Most bytes of a reason.
pub const REASON_BYTES_MAX: usize = 256;

/// What the library has made of it.
pub mod state {
    /// Nobody has read it.
    pub const UNREAD: u64 = 0;
    /// The library has begun to read it.
    pub const READ: u64 = 1;
    /// The program is recorded.
    pub const RECORDS: u64 = 2;
    /// It is not; the reason is there.
    pub const REFUSED: u64 = 3;
}
