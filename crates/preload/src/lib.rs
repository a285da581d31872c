//! The malloc family, interposed: a shared library to be preloaded, or linked with.
//!
//! It exports the functions of [`hooked`], finds who would have been called without it
//! ([`next`]), and tells the recorder what happened ([`calls`]). Nothing else is decided here.
//!
//! It is `no_std`, depends on no library, allocates nothing and cannot unwind. It can be called
//! before any constructor has run, in signal handlers and in half-dead threads.
//!
//! # Safety
//! Entry points are called by any program with any arguments, as the functions they stand for are;
//! what those may be given, the next allocator is given unchanged.
//!
//! With the feature `wrapped` it is an archive to be linked with `--wrap=malloc` and so on: the same functions under the names that
//! the linker then calls, and [`next`] is what the linker calls the real ones.
#![no_std]
#![cfg_attr(feature = "wrapped", allow(dead_code, reason = "what is only for functions of the loader"))]
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

#[cfg(not(feature = "wrapped"))]
mod attached;
mod called;
mod calls;
mod direct;
mod emulated;
mod frame;
mod guard;
mod hooked;
#[cfg(not(feature = "wrapped"))]
mod judging;
mod life;
mod memory;
#[cfg_attr(feature = "wrapped", path = "wrapped.rs")]
mod next;
mod offered;
mod operators;
#[cfg(feature = "oracle")]
mod oracle;
mod others;
mod real;
#[cfg(not(feature = "wrapped"))]
mod restrictions;
mod says;
#[cfg(not(feature = "wrapped"))]
mod signals;
mod stubs;
mod watched;

// Its functions are exported from here.
use heapledger_api as _;
use heapledger_process::shared::SHARED;

/// A program that never allocates gets a ledger too, one that says so.
#[used]
#[cfg_attr(not(feature = "wrapped"), unsafe(link_section = ".init_array"))]
// In front of the program's own.
#[cfg_attr(feature = "wrapped", unsafe(link_section = ".init_array.00100"))]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        life::loaded();
    }
    at_load
};

/// The program ends, and with it what is recorded.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    #[unsafe(link_section = "heapledger_entry")]
    extern "C" fn at_exit() {
        guard::at_exit();
        heapledger_process::life::end();
        // Not a last call: the frame stays as long as the recorder is at work.
        core::hint::black_box(());
    }
    at_exit
};

// Only compilers and lints look at a build that unwinds; what a program gets aborts, as the profile `release` says.
#[cfg(panic = "unwind")]
extern crate std;

// Prebuilt `core` refers to this symbol. Undefined, the loader would refuse the library; hidden, it
// stays out of the program's namespace.
#[cfg(all(panic = "abort", not(feature = "wrapped")))]
core::arch::global_asm!(".hidden rust_eh_personality", ".globl rust_eh_personality");
#[cfg(panic = "abort")]
core::arch::global_asm!("rust_eh_personality: ud2");

/// Nothing here panics; a test looks for it in the binary. If something did, going on would be worse.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        // SAFETY: raises SIGILL.
        unsafe { core::arch::asm!("ud2") };
    }
}
