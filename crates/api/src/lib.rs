//! The C API: functions by which a program speaks to whoever records in its process. `include/heapledger.h` says what they do.
//!
//! They are in the preload library, so that a program finds them under `heapledger run` and needs no library of its own. Each is
//! listed in [`list`]. All may be called at any time, from any thread, in signal handlers and forked children too: where nothing can
//! be done, the answer says so.
//!
//! # Safety
//! Functions with pointers trust their callers as C does: a text ends with a zero byte, and there is room where something is
//! to be stored. Null is answered, never followed.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
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

pub mod blocks;
mod entry;
pub mod error;
mod handles;
pub mod heaps;
pub mod hooks;
pub mod life;
pub mod lines;
pub mod list;
pub mod measures;
pub mod moments;
pub mod output;
pub mod recording;
mod scratch;
pub mod stacks;
pub mod task_totals;
pub mod tasks;
mod text;
pub mod traces;
pub mod watching;
pub mod windows;
