//! What is entered in the ledger, and when.
//!
//! [`policy`] knows what an allocation, a free and a realloc mean for the ledger; it is the same
//! on a server and on a chip. A [`policy::Backend`] knows how records, index, call sites and
//! counters are kept there:
//!
//! - [`linux`]: a shared file mapping, a shadow map, lock-free tables, per-thread state;
//! - [`chip`]: one region of memory, small hash, plain trie, under the caller's critical section.
//!
//! The recorder does not know how a program's allocations reach it, and it never calls the
//! program's allocator, unwinds, or waits without bound.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod policy;

pub mod chip;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "loom")))]
pub mod linux;

#[cfg(any(feature = "loom", all(target_os = "linux", target_arch = "x86_64")))]
mod sync;

/// What threads do without a lock in the backend for Linux, for the model checks in `tests/loom.rs`.
#[cfg(feature = "loom")]
pub mod linux {
    pub mod cells;
    pub mod chunks;
    pub mod places;
    pub mod publication;
    pub mod slots;
}
