//! A ledger of the heap for firmware in C and C++: a static library, without an operating system and without `std`.
//!
//! `include/heapledger-firmware.h` says what there is room for, what time it is and which task runs, when the firmware is compiled; the linker's
//! `--wrap=malloc` and so on lead its calls here (`hooks`). `docs/firmware.md` says how it is built. The recorder is that of
//! [`heapledger::chip`]: with places that the compiler of the firmware reckons, and fields that were laid out before, in one of three ways
//! (`layouts`).
//!
//! With the feature `fixed` the library is built for one firmware, whose layout the compiler knows (`fixed`): less of everything.
//!
//! Calls within calls are one: `new` calls `malloc`, and that `_malloc_r`. The outermost is entered (`marks`).
//!
//! # Safety
//! Rooms with `unsafe`: `board` reads what the header has put into a constant, `fixed` calls what it has made, `layouts` and `by_hand` are called by C, `exceptions` read what was interrupted, `hooks` stand before
//! allocators, in assembly, `guarding` dresses their blocks (with the feature `guard`), `marks` look at words of stacks, `processor` at registers.
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

// Where there is an operating system nothing is here but what is compared with the header.
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod fixed_sizes;
pub mod sizes;

#[cfg(all(feature = "fixed", feature = "guard"))]
compile_error!("a library that is built for one firmware guards no blocks");

#[cfg(all(target_os = "none", target_pointer_width = "32", not(feature = "fixed")))]
mod board;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod by_hand;
#[cfg(all(target_os = "none", target_pointer_width = "32", feature = "fixed"))]
mod direct;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod exceptions;
#[cfg(all(target_os = "none", target_pointer_width = "32", feature = "fixed"))]
mod fixed;
#[cfg(all(target_os = "none", target_pointer_width = "32", feature = "guard"))]
mod guarding;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod hooks;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod layouts;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod marks;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod processor;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod stub;
#[cfg(all(target_os = "none", target_pointer_width = "32", feature = "hooks"))]
mod telling;
#[cfg(all(target_os = "none", target_pointer_width = "32"))]
mod windows;

/// Who enters what is told.
#[cfg(all(target_os = "none", target_pointer_width = "32", not(feature = "fixed")))]
use board as entering;
#[cfg(all(target_os = "none", target_pointer_width = "32", feature = "fixed"))]
use fixed as entering;

/// Nothing here can panic (`e2e/tests/firmware_c.rs` looks at the linked program), but a library without `std` must have this.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
