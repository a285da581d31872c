//! Functions of the C library, interposed, to hold what their calls access against the blocks that it concerns: a shared library to be
//! preloaded behind the one with the recorder, at levels of guarding where blocks lie in memory of the guard's own.
//!
//! It exports the functions of [`list`], finds who would have been called without it ([`next`]), asks the other library whose memory an
//! address is, and tells it of calls that access what is no live block's. A call is judged by what it means ([`call`]), never by
//! what the real function touches; then it goes on as it is. Where the other library is not there, or has no memory of its own, calls
//! are passed on at once.
//!
//! Judged is an access only where its first byte lies in memory of the guard's own, in the place of a block: in the block itself, or
//! between it and the next one. No call of another allocator's memory is.
//!
//! It is `no_std`, depends on no library, allocates nothing and cannot unwind. It can be called before any constructor has run, before it
//! was relocated, in signal handlers and in half-dead threads.
//!
//! # Safety
//! Entry points are called by any program with any arguments, as the functions they stand for are; what those would read, is read here:
//! of blocks at most up to their end, of other memory as far as the real function will.
#![no_std]
#![cfg_attr(test, allow(dead_code, unused_macros, unused_imports, reason = "no function is interposed in a test"))]
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

mod call;
mod compared;
mod format;
mod formatted;
mod frame;
mod heap;
mod list;
mod measure;
mod memory;
mod next;
mod stubs;
mod values;

#[cfg(test)]
mod tests;

// Only compilers, lints and tests look at a build that unwinds; what a program gets aborts, as the profile `release` says.
#[cfg(panic = "unwind")]
extern crate std;

/// The real functions are looked for before anybody is in a hurry.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        next::look();
    }
    at_load
};

// As in the preload library.
#[cfg(panic = "abort")]
core::arch::global_asm!(".hidden rust_eh_personality", ".globl rust_eh_personality", "rust_eh_personality: ud2");

/// Nothing here panics; a test looks for it in the binary. If something did, going on would be worse.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        // SAFETY: raises SIGILL.
        unsafe { core::arch::asm!("ud2") };
    }
}
