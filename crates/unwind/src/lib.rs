//! Call stacks taken from inside a running x86-64 program, in an allocation hook.
//!
//! # What you supply, what you get
//!
//! You supply the registers at the hook's caller ([`Registers`]), a way to read words of the
//! stack and to find the unwind table of a code address ([`Environment`]), memory for a
//! [`RuleCache`], and an array for the answer. [`walk`] fills the array and says why it stopped.
//!
//! # What may happen on the way
//!
//! Nothing that an allocation hook must not do: no allocation, no lock, no panic, no system call
//! of our own, less than 2 KiB of stack. All memory is read through the [`Environment`], so the
//! crate contains no `unsafe`, and a test of it can be an array of integers.
//!
//! # How
//!
//! ```text
//!  pc --> RuleCache --hit--> Rule --step--> next pc, sp, bp      (a few ns per frame)
//!            |miss                |General
//!            v                    v
//!  Environment::find_table     start again, all registers tracked,
//!  .eh_frame_hdr --> FDE       every frame evaluated in full        (rare, exact)
//!  --> Row --> Rule
//! ```
//!
//! Compilers describe nearly every call site by one of a handful of shapes: "the frame's top is
//! so far above `rsp` (or `rbp`), the caller's `rbp` lies there". Those fit into a [`Rule`] of
//! four bytes. Whatever does not fit is `General`, and the walk then starts over with an
//! evaluator that tracks all registers, because a compact step forgets those that it did not need.
//!
//! A thread's next stack is mostly the last one with a few other frames on top. [`take`] keeps the
//! last stack and the words that it was read from, and walks only until it meets a frame of it: from
//! there outwards nothing has to be found, only to be compared. See [`LastStack`] for why that is exact.
//!
//! # The convention for program counters
//!
//! Every stored pc is such that **pc − 1 lies in the instruction that was executing**. A return
//! address has that property by itself, since the call precedes it. For a frame that a signal
//! interrupted, the interrupted address itself is the instruction, so its address **plus one** is
//! stored. Whoever names frames subtracts one everywhere and need not know which kind it is.
//!
//! # Not for
//!
//! Core dumps, exception handling, 32-bit x86. (Of another process a stack can be walked, with an [`Environment`] that reads it.)

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

mod memo;
mod step;
mod verified;
mod walk;

mod chain;
mod full;

mod cache;
mod rule;

mod expression;
mod program;
mod row;
mod table;

mod bytes;

pub use cache::{CacheCounters, RuleCache};
pub use full::{walk_frames, walk_in_full};
pub use memo::{Candidate, Memo, PackedWords, Remembered};
pub use row::{CfaRule, RegisterRule, Row};
pub use rule::{BasePointer, Rule, Shape};
pub use table::{Table, TableError};
pub use verified::{FrameNote, Fresh, Head, LastStack, Taken, Word, take};
pub use walk::{End, Strategy, Walk, resolve, walk, walk_by_frame_pointers};

/// The registers at the hook's caller, as they will be after the hook returns.
///
/// These are all that an unwinder can need: at a call boundary the caller-saved ones are unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The return address of the hook: an address in its caller.
    pub ip: u64,
    /// The stack pointer after the return, that is, the canonical frame address of the hook.
    pub sp: u64,
    /// `rbp`.
    pub bp: u64,
    /// `rbx`.
    pub bx: u64,
    /// `r12`.
    pub r12: u64,
    /// `r13`.
    pub r13: u64,
    /// `r14`.
    pub r14: u64,
    /// `r15`.
    pub r15: u64,
}

/// The process being walked, as far as unwinding needs it.
///
/// The methods take `&self`, because the bytes of a table are in use while words are read. An
/// implementation that remembers something (bounds of the stack last used) keeps it in a `Cell`.
pub trait Environment {
    /// The eight bytes at `address`; `None` if they may not be read.
    ///
    /// Asked for every word of the stack that unwinding depends on, so it should be a comparison
    /// with known bounds and a load. The address need not be aligned, and with corrupt tables or
    /// frame pointers it can be anything.
    fn read_word(&self, address: u64) -> Option<u64>;

    /// The unwind table of the module that holds the code address `pc`.
    fn find_table(&self, pc: u64) -> Lookup<'_>;

    /// Whether `pc` can be a return address: asked where there is no table to say so, and only a frame pointer led to it.
    fn may_be_code(&self, pc: u64) -> bool {
        let _ = pc;
        true
    }

    /// The eight bytes of code at `pc`; `None` if they may not be read. Asked where there is no table, at each step: such code can
    /// be replaced by other code.
    fn read_code(&self, pc: u64) -> Option<[u8; 8]> {
        let _ = pc;
        None
    }

    /// Whether every word holds what it held when [`Environment::read_word`] gave it. All of them lie
    /// between `low` and `high`, both included.
    ///
    /// Asked once per stack for all that was not walked anew, so an implementation compares the bounds
    /// once and then only loads. What it cannot vouch for it denies; then the stack is walked.
    fn still_hold(&self, words: &[Word], low: u64, high: u64) -> bool {
        let _ = (low, high);
        words.iter().all(|word| self.read_word(word.address) == Some(word.value))
    }

    /// The same of words that are packed.
    fn packed_still_hold(&self, words: &PackedWords) -> bool {
        let PackedWords { low, above, values, .. } = *words;
        let addresses = above.iter().map(|above| low.wrapping_add(u64::from(*above) << 3));
        addresses.zip(values).all(|(address, value)| self.read_word(address) == Some(*value))
    }

    /// The rule and the tag of a pc that another thread has met already.
    fn recall(&self, pc: u64) -> Option<(Rule, u32)> {
        let _ = pc;
        None
    }

    /// Does rare work that takes kilobytes of stack: perhaps elsewhere.
    fn apart(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Keeps a rule for other threads. Returns the pc's tag; 0 stands for none.
    fn remember(&self, pc: u64, rule: Rule) -> u32 {
        let _ = (pc, rule);
        0
    }
}

/// What [`Environment::find_table`] knows about a code address.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    /// The module has a table.
    Found(Table<'a>),
    /// The address belongs to a module that has no `.eh_frame_hdr`, or to none: generated code, or no code at all. That may be
    /// remembered until rules are flushed.
    NoTable,
}
