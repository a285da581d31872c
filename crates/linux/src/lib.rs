//! What the recorder needs of Linux and of glibc's loader, without libc and without allocation.
//!
//! Everything here may be called from inside `malloc`, from a signal handler, before any
//! constructor has run and after every destructor has. Nothing sets `errno`, nothing but
//! `unloading` takes a lock of the C library, and nothing waits without bound. x86-64 only; on every other target the
//! crate is empty.
#![no_std]
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

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86_64_linux {
    pub mod apart;
    pub mod clock;
    mod coarse;
    pub mod context;
    mod debug_list;
    mod dynamic;
    mod find_object;
    pub mod fork;
    pub mod fork_token;
    pub mod loader;
    pub mod memory;
    pub mod peek;
    pub mod process;
    pub mod rebinding;
    pub mod seccomp;
    pub mod segment;
    pub mod stack;
    pub mod syscall;
    pub mod text;
    pub mod tls;
    pub mod token;
    pub mod unloading;
    pub mod watchpoints;
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use x86_64_linux::*;
