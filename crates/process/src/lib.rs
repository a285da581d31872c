//! The recorder of a Linux process: a ledger in a shared file mapping.
//!
//! It is one of the two backends of `heapledger_recorder::policy`, which knows what an allocation, a free and a
//! realloc mean for a ledger. Like it, this crate does not know how a program's allocations reach it, and it never
//! calls the program's allocator, unwinds, or waits without bound. x86-64 only; elsewhere the crate is empty.
//!
//! ```text
//! shared file mapping (ledger.rs)            private memory (private.rs)
//!   records            <- slots.rs             shadow map: address -> slot   (index.rs)
//!   history ring       <- history.rs           hash tables over pcs and sites (sites.rs, segments.rs)
//!   sites, pcs         <- sites.rs             owners of history chunks       (history.rs)
//!   modules, strings   <- modules.rs           state of each thread           (state.rs, threads.rs)
//!   threads, tallies   <- threads.rs
//!   marks, windows     <- marks.rs, windows.rs
//!   labels, texts      <- labels.rs, texts.rs
//!   accounts, account_frees   <- accounts.rs   (with a table of its own)
//!   errors             <- errors.rs
//! ```
//!
//! # Safety
//! All tables are memory that is mapped once and never unmapped, zero when fresh, and accessed
//! through atomics wherever two threads can meet. A [`state::ThreadState`] belongs to one kernel
//! thread at a time, see [`threads`]; what a hook alone may touch of it, only through [`state::Entered`], which is had by
//! setting the guard ([`access`]). `unsafe` has ten rooms of its own, which ARCHITECTURE.md names with what each is
//! for: [`section`] makes atomic words of the ledger's file, `private` makes tables of our own memory, `once` lends values that
//! were written before, [`state`] and [`access`] lend a thread's books, [`traces`] lends a trace, `land` closes pages, [`c_heap`] calls the C library, [`anew`], [`entry`] and [`ways`] are what
//! their names say. All other files forbid it.
#![no_std]
#![cfg(any(feature = "loom", all(target_os = "linux", target_arch = "x86_64")))]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

#[cfg(test)]
extern crate std;

// What threads do without a lock; with the feature `loom` that is all there is, for the model checks in `/loom`.
pub mod cells;
pub mod chunks;
pub mod folding;
pub mod lease;
pub mod places;
pub mod publication;
pub mod slots;
pub mod sums;
mod sync;

#[cfg(not(feature = "loom"))]
pub mod access;
#[cfg(not(feature = "loom"))]
pub mod accounts;
#[cfg(not(feature = "loom"))]
mod anchored;
#[cfg(not(feature = "loom"))]
pub mod anew;
#[cfg(not(feature = "loom"))]
pub mod arena_sweep;
#[cfg(not(feature = "loom"))]
pub mod arenas;
#[cfg(not(feature = "loom"))]
mod backend;
#[cfg(not(feature = "loom"))]
pub mod backtrace;
#[cfg(not(feature = "loom"))]
pub mod breaks;
#[cfg(not(feature = "loom"))]
pub mod c_heap;
#[cfg(not(feature = "loom"))]
pub mod capture;
#[cfg(not(feature = "loom"))]
mod certain;
#[cfg(not(feature = "loom"))]
mod chosen;
#[cfg(not(feature = "loom"))]
pub mod code;
#[cfg(not(feature = "loom"))]
pub mod complaints;
#[cfg(not(feature = "loom"))]
mod copy;
#[cfg(not(feature = "loom"))]
pub mod damage;
#[cfg(not(feature = "loom"))]
pub mod depot;
#[cfg(not(feature = "loom"))]
pub mod depth_in_force;
#[cfg(not(feature = "loom"))]
mod described;
#[cfg(not(feature = "loom"))]
pub mod enclosing;
#[cfg(not(feature = "loom"))]
pub mod ending;
#[cfg(not(feature = "loom"))]
pub mod entry;
#[cfg(not(feature = "loom"))]
mod error_stack;
#[cfg(not(feature = "loom"))]
pub mod errors;
#[cfg(not(feature = "loom"))]
pub mod exit_status;
#[cfg(not(feature = "loom"))]
pub mod families;
#[cfg(not(feature = "loom"))]
pub mod family;
#[cfg(not(feature = "loom"))]
pub mod faults;
#[cfg(not(feature = "loom"))]
pub mod finish;
#[cfg(not(feature = "loom"))]
mod frees;
#[cfg(not(feature = "loom"))]
mod guard_memory;
#[cfg(not(feature = "loom"))]
pub mod guarded;
#[cfg(not(feature = "loom"))]
pub mod guarding;
#[cfg(not(feature = "loom"))]
pub mod heap_books;
#[cfg(not(feature = "loom"))]
pub mod heaps;
#[cfg(not(feature = "loom"))]
pub mod history;
#[cfg(not(feature = "loom"))]
pub mod hooks;
#[cfg(not(feature = "loom"))]
pub mod index;
#[cfg(not(feature = "loom"))]
pub mod inner;
#[cfg(not(feature = "loom"))]
mod instruction;
#[cfg(not(feature = "loom"))]
pub mod judged;
#[cfg(not(feature = "loom"))]
pub mod labels;
#[cfg(not(feature = "loom"))]
mod land;
#[cfg(not(feature = "loom"))]
pub mod layouts;
#[cfg(not(feature = "loom"))]
pub mod ledger;
#[cfg(not(feature = "loom"))]
pub mod life;
#[cfg(not(feature = "loom"))]
pub mod live_lines;
#[cfg(not(feature = "loom"))]
pub mod look;
#[cfg(not(feature = "loom"))]
pub mod marks;
#[cfg(not(feature = "loom"))]
mod measuring;
#[cfg(not(feature = "loom"))]
pub mod modules;
#[cfg(not(feature = "loom"))]
pub mod once;
#[cfg(not(feature = "loom"))]
pub mod options;
#[cfg(not(feature = "loom"))]
pub mod order;
#[cfg(not(feature = "loom"))]
mod own_memory;
#[cfg(not(feature = "loom"))]
pub mod peak;
#[cfg(not(feature = "loom"))]
pub mod periodic;
#[cfg(not(feature = "loom"))]
mod place;
#[cfg(not(feature = "loom"))]
mod private;
#[cfg(not(feature = "loom"))]
pub mod protected;
#[cfg(not(feature = "loom"))]
pub mod python;
#[cfg(not(feature = "loom"))]
mod python_calls;
#[cfg(not(feature = "loom"))]
mod rarely;
#[cfg(not(feature = "loom"))]
pub mod reallocation;
#[cfg(not(feature = "loom"))]
pub mod room;
#[cfg(not(feature = "loom"))]
pub mod sampling;
#[cfg(not(feature = "loom"))]
pub mod section;
#[cfg(not(feature = "loom"))]
mod segments;
#[cfg(not(feature = "loom"))]
pub mod shared;
#[cfg(not(feature = "loom"))]
pub mod sites;
#[cfg(not(feature = "loom"))]
mod spare;
#[cfg(not(feature = "loom"))]
pub mod start;
#[cfg(not(feature = "loom"))]
pub mod state;
#[cfg(not(feature = "loom"))]
pub mod summing;
#[cfg(not(feature = "loom"))]
mod surroundings;
#[cfg(not(feature = "loom"))]
pub mod sweep;
#[cfg(not(feature = "loom"))]
pub mod switch;
#[cfg(not(feature = "loom"))]
pub mod texts;
#[cfg(not(feature = "loom"))]
pub mod thread_facts;
#[cfg(not(feature = "loom"))]
pub mod threads;
#[cfg(not(feature = "loom"))]
pub mod timeline;
#[cfg(not(feature = "loom"))]
pub mod traces;
#[cfg(not(feature = "loom"))]
mod trapped;
#[cfg(not(feature = "loom"))]
pub mod unknown;
#[cfg(not(feature = "loom"))]
pub mod walk;
#[cfg(not(feature = "loom"))]
pub mod watchpoint;
#[cfg(not(feature = "loom"))]
pub mod ways;
#[cfg(not(feature = "loom"))]
mod wide;
#[cfg(not(feature = "loom"))]
pub mod windows;
