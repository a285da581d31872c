//! A program that keeps the books of its own heap.
//!
//! [`Heapledger`] stands around the program's allocator. Each block is entered in a *ledger*, with address, size, call stack,
//! thread and time, and for freed blocks who freed them. The ledger is complete at every moment: the command `heapledger` reads
//! it while the program runs (`heapledger dump PID`), and after any end, even `kill -9`. Names of functions and lines are
//! found by the command that reads it.
//!
//! ```
//! use heapledger::Heapledger;
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static HEAP: Heapledger<System> = Heapledger::system();
//!
//! fn main() {
//!     let kept = vec![0u8; 1000];
//!     # #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
//!     assert_eq!(heapledger::recording(), heapledger::Recording::On);
//!     drop(kept);
//!     # heapledger::discard();
//! }
//! ```
//!
//! [`snapshot`] writes what the ledger holds at some moment to a file, and the program goes on; [`LiveLines`] writes what lives as lines for a log. [`stack`] takes call stacks for
//! the program's own use.
//!
//! # Three strengths
//!
//! | | what there is | what a call costs |
//! |---|---|---|
//! | tracking, as above | every block, with its stack | about what `heapledger run` costs |
//! | [`Options::sampled`] | one block for each so many bytes, with its stack; unbiased sums | next to nothing |
//! | [`Options::counting`] | totals of the program and each thread: [`stats`], [`thread_stats`] | one addition that threads share |
//!
//! [`Options::off`] is none of them: one comparison, until the program says [`start`].
//!
//! # Wrong layouts
//!
//! A block has to be given back, or resized, with the size and alignment that it was asked for with. Whoever does that otherwise, which takes
//! `unsafe` code, is in the ledger, with the stacks of the allocation and of the free: `heapledger errors FILE|PID`. The call is passed on as it
//! came. Compared are blocks that are in the ledger (of sampled ones the samples), also while recording is paused; not under
//! `heapledger run`, whose recorder is not told.
//!
//! # Who wrote over it
//!
//! [`Options::guard`] guards the blocks of the program, from the first on: around any allocator, in forked children, and while recording is
//! paused.
//!
//! | | what it finds |
//! |---|---|
//! | [`GuardLevel::Light`] | writes of up to 16 bytes in front of a block, and up to 16 behind it, when it is given back or resized |
//! | [`GuardLevel::Full`] | the same up to 4 KiB on each side, and writes into freed blocks, when these leave the quarantine |
//!
//! Both find blocks that are given back twice, or where none begins; such a call does not reach the allocator inside. What is found is an error in
//! the ledger, with who allocated the block and who freed it (`heapledger errors FILE|PID`), and a line on standard error. All blocks are looked at
//! when the program ends or aborts, and when it asks: [`check_integrity()`], [`check_block`]. The program goes on all the same, and ends as it
//! would have ended.
//!
//! At [`GuardLevel::Light`] the allocator inside is asked for more than the program wants, and gets back what it has given, with the layout that it was asked
//! for with, also where the program says another one. At [`GuardLevel::Full`] blocks lie in memory of the guard's own, and it is asked only for what finds no
//! room there, which is guarded as at `Light`. `realloc` always moves. What else can be set is set by the person who starts the program, who has the
//! last word: `HEAPLEDGER=guard=full,check-every=1000 ./program` (`docs/guard.md`) guards a program that asks for nothing as well. Levels with
//! closed pages take `heapledger run`, and under `run` the guard is that of `run --guard=LEVEL` alone. [`lower_guard`] has
//! new blocks guarded less, once the program has started, say. After [`stop()`] they are not guarded any more, since that takes system calls.
//!
//! # Measuring
//!
//! [`region`] measures what the program does from one moment to another, [`thread_region`] what one thread does: allocations, frees, what
//! is left, the peak between. They work in each strength, and under `heapledger run`.
//!
//! [`assert_no_leak!`], [`assert_no_alloc!`] and [`assert_max_alloc!`] say of a test's own code what it may allocate, whatever the
//! threads of other tests do meanwhile. A message names the stacks of the blocks in question. (In tests,
//! [`Options::at_exit`] with [`AtExit::Remove`] leaves no ledger behind.) [`fail`] lets calls of a thread fail, to see
//! what the program does then.
//!
//! [`on_alloc`] and [`on_free`] have functions of the program called for each block that is given, and given back,
//! [`on_request_above`] for each that asks for more than so many bytes, granted or not, [`on_live_above`] when live bytes pass a limit.
//!
//! A [`Trace`] keeps exact books of a while in a buffer of the program's own, with or without a ledger: what was allocated meanwhile and lives,
//! or all of it, with stacks.
//!
//! # With `tracing`
//!
//! The feature `tracing` adds `SpanLabels`, a layer for subscribers of that crate: what is allocated while a span is entered is labelled
//! by its name and by chosen fields, across `.await` too. Without features the crate depends on nothing outside of its project.
//!
//! # Which `heapledger` reads it
//!
//! Any of the same version or later. (Every later one reads every earlier ledger.)
//!
//! # Builds without optimisation
//!
//! `cargo build` compiles this crate without optimisation too, which makes recording many times slower. Two lines in
//! the program's `Cargo.toml` have it compiled as it is meant to be; the program itself stays as easy to debug as it was:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
//!
//! # Under `heapledger run`
//!
//! The recorder that `heapledger run` brings then records everything, blocks of C and C++ libraries too. This
//! crate steps back: it passes calls on, and [`pause`], [`resume`], [`recording`], [marks](mark()), [labels](label()) and [windows](Window) speak to that one. There is one ledger
//! in a process. It sees what comes to `malloc`. Around an allocator that has memory of its own (jemalloc, mimalloc, a crate's) this crate
//! tells it of the program's blocks, which are in a heap of their own there; which of both it is, is tried out at the first call, with
//! a few blocks that nobody records. All that is so with [`Options::off`] and [`Options::counting`] too. Wrong layouts are found without `run` only.
//!
//! # In libraries that are loaded
//!
//! A library with this crate inside (`cdylib`) may be opened by a program with or without it, and by several threads. It stays
//! loaded when it is closed: a recorder cannot go. Where several copies of this crate are in one process, whoever allocates first
//! records, and guards the blocks of its own module; the others step back as under `heapledger run`: they tell it of the blocks of their module, and
//! [marks](mark()), [labels](label()) and all else speak to it. (`links` keeps two versions from one module.)
//!
//! # What it does not see
//!
//! Blocks that C libraries allocate for themselves, since those do not come here. A program that unloads libraries (`dlclose`) and
//! loads others at the same addresses can find old functions in new stacks. Before a program forbids itself system calls (`seccomp`), it calls
//! [`stop`]. A forked child is not recorded.
//!
//! # Where it works
//!
//! On x86-64 Linux with glibc 2.35 or later. On other systems (macOS, Windows, other processors) [`Heapledger`] passes all calls on to the
//! allocator inside, and nothing is recorded: they have counting only ([`Options::counting`]), with regions. What [`chip`] has
//! works everywhere.
//!
//! # Without `std`
//!
//! With `default-features = false` the crate needs `core` and nothing else. On Linux the same is recorded; what is missing is what names
//! things of `std` (`Heapledger::system`, and `snapshot`, for which there is [`snapshot_to`]). On targets without an operating system
//! [`chip::ChipAllocator`] keeps the ledger in a region of the firmware's own memory; the allocator of this page passes calls on there. (On processors that cannot
//! compare and swap, a Cortex-M0, there is [`chip`] and nothing else.)
//!
//! # Safety
//! Rooms with `unsafe`: `allocator` passes calls on to the allocator inside, `entry` stands for the functions that take
//! them, in assembly, `guard` dresses what the allocator gives, [`chip`] lends a ledger in memory, `begin` keeps what was asked for, `heap` calls a function of the C library, `label` pins a future inside of another
//! one, `told` keeps functions of the program; `registers` and [`stack`] read what a stack begins with. All else forbids it.
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

#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(target_has_atomic = "ptr")]
mod allocator;
#[cfg(target_has_atomic = "ptr")]
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod assertions;
pub mod chip;
#[cfg(target_has_atomic = "ptr")]
mod control;
#[cfg(target_has_atomic = "ptr")]
mod depot;
#[cfg(target_has_atomic = "ptr")]
mod error;
#[cfg(target_has_atomic = "ptr")]
mod event;
#[cfg(target_has_atomic = "ptr")]
mod faults;
#[cfg(target_has_atomic = "ptr")]
mod heap;
#[cfg(target_has_atomic = "ptr")]
mod integrity;
#[cfg(target_has_atomic = "ptr")]
mod label;
#[cfg(target_has_atomic = "ptr")]
mod live_lines;
#[cfg(target_has_atomic = "ptr")]
mod mark;
#[cfg(target_has_atomic = "ptr")]
mod options;
#[cfg(target_has_atomic = "ptr")]
mod region;
#[cfg(target_has_atomic = "ptr")]
mod snapshot;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod spacing;
#[cfg(target_has_atomic = "ptr")]
#[cfg(feature = "tracing")]
mod spans;
#[cfg(target_has_atomic = "ptr")]
mod stats;
#[cfg(target_has_atomic = "ptr")]
mod told;
#[cfg(target_has_atomic = "ptr")]
mod trace;
#[cfg(target_has_atomic = "ptr")]
mod watching;
#[cfg(target_has_atomic = "ptr")]
mod window;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod begin;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod entry;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod forward;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guard;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod registers;

#[cfg(target_has_atomic = "ptr")]
pub mod stack;

#[cfg(target_has_atomic = "ptr")]
pub use allocator::Heapledger;
#[cfg(target_has_atomic = "ptr")]
pub use control::{Recording, discard, pause, recording, resume, set_free_depth, start, stop};
#[cfg(target_has_atomic = "ptr")]
pub use error::Error;
#[cfg(target_has_atomic = "ptr")]
pub use event::{Event, EventCall};
#[cfg(target_has_atomic = "ptr")]
pub use faults::{Failing, Fault, fail, fail_all};
#[cfg(target_has_atomic = "ptr")]
pub use heap::{HeapInfo, heap_info};
#[cfg(target_has_atomic = "ptr")]
pub use heapledger_watch::Stats;
#[cfg(target_has_atomic = "ptr")]
pub use heapledger_watch::inside::{HookFigures, hook_figures};
#[cfg(target_has_atomic = "ptr")]
pub use integrity::{check_block, check_integrity, lower_guard};
#[cfg(target_has_atomic = "ptr")]
pub use label::{LabelFuture, LabelGuard, Labelled, label};
#[cfg(target_has_atomic = "ptr")]
pub use live_lines::LiveLines;
#[cfg(target_has_atomic = "ptr")]
pub use mark::{ScopeGuard, mark, mark_thread, scope};
#[cfg(target_has_atomic = "ptr")]
pub use options::{AtExit, GuardLevel, Options};
#[cfg(target_has_atomic = "ptr")]
pub use region::{Region, ThreadRegion, region, thread_region};
#[cfg(target_has_atomic = "ptr")]
#[cfg(feature = "std")]
pub use snapshot::snapshot;
#[cfg(target_has_atomic = "ptr")]
pub use snapshot::{NotWritten, snapshot_to};
#[cfg(target_has_atomic = "ptr")]
#[cfg(feature = "tracing")]
pub use spans::SpanLabels;
#[cfg(target_has_atomic = "ptr")]
pub use stats::{stats, thread_stats};
#[cfg(target_has_atomic = "ptr")]
pub use told::{Hook, on_alloc, on_free, on_live_above, on_request_above};
#[cfg(target_has_atomic = "ptr")]
pub use trace::{NotTraced, Trace, TraceFigures, TraceFree, TraceOptions, TraceRecord, TraceRecords};
#[cfg(target_has_atomic = "ptr")]
pub use watching::{Watch, watch};
#[cfg(target_has_atomic = "ptr")]
pub use window::{Window, WindowFigures, WindowOptions};
