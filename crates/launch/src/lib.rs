//! The life of a run, as a library: whether a program can be tracked, how it is started with the recorder in it, what
//! stays beside it, and how its ledgers are held, finished, found again and finished by somebody else.
//!
//! It says nothing to anybody: what happened is a value, what went wrong is one that has its sentence, and who calls it
//! has the terminal. Only what makes `main` impossible is said before it (`startup.rs`).
#![deny(unsafe_code)]

pub mod attach;
pub mod deep;
pub mod detect;
pub mod door;
pub mod end;
pub mod entered;
mod error;
pub mod exec;
pub mod family;
pub mod finish;
pub mod finished;
pub mod freeze;
pub mod keep;
pub mod live;
pub mod locate;
mod looks;
pub mod machine;
pub mod options;
pub mod output;
pub mod recover;
mod roomy;
pub mod session;
pub mod sha256;
pub mod size;
pub mod snapshot;
pub mod start;
pub mod threshold;
mod totals;
pub mod wait;

#[allow(unsafe_code, reason = "settings of the C library's allocator")]
pub mod memory;
#[allow(unsafe_code, reason = "notes the state of signals before Rust's runtime changes it")]
pub mod startup;
#[allow(unsafe_code, reason = "system calls without a safe door in our dependencies")]
pub mod sys;

pub use error::LaunchError;

/// Exit code if we fail ourselves, not the program.
pub const OWN_FAILURE: u8 = heapledger_format::session::NOT_RECORDED_STATUS;
