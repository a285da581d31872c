//! What a program may ask of its calls beside recording: functions that are told of them, calls that fail on purpose, figures, traces.
//!
//! The crate `heapledger` and the C API hand on what the program asks for; the entries of the one and of the preload library come here
//! only if something was asked for ([`state`]), so that it costs nothing where nobody did. Each copy of this code has its own books.
//! Nothing is allocated, and no function of the program's is called but those that asked to be told.
#![no_std]
#![forbid(unsafe_code)]
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

#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod caller;
pub mod counting;
pub mod faults;
pub mod hooks;
pub mod inside;
pub mod live;
pub mod regions;
pub mod state;
pub mod stats;
mod thread_word;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod traces;
pub mod watched;

pub use stats::Stats;
pub use thread_word::id as thread_id;
