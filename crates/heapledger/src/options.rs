//! What a program asks for.
#![forbid(unsafe_code)]

use heapledger_format::session::QUARANTINE_BYTES;

/// How a program wants to be recorded: a value that is made when compiling.
///
/// What the person who starts the program sets in the environment variable `HEAPLEDGER` wins: `begin=now`, `paused` or `later`,
/// `at-exit=finish`, `keep` or `remove`, `output=PATH` and `dir=PATH`, and the options of the recorder as `heapledger run` has them.
/// What is not understood in it is named on standard error, and ignored.
///
/// ```
/// use heapledger::{AtExit, Heapledger, Options};
/// use std::alloc::System;
///
/// const OPTIONS: Options = Options::new().directory("/var/tmp").depth(64).history(1 << 20).at_exit(AtExit::Remove);
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, OPTIONS);
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "where nothing is recorded most of it is without effect")
)]
pub struct Options {
    pub(crate) directory: &'static str,
    pub(crate) in_memory: bool,
    pub(crate) begins: Begins,
    pub(crate) counts: bool,
    pub(crate) ledger_bytes_max: u64,
    pub(crate) history: u64,
    pub(crate) depth: u64,
    pub(crate) free_depth: u64,
    pub(crate) sample_bytes: u64,
    pub(crate) accounts: bool,
    pub(crate) at_exit: AtExit,
    pub(crate) output: &'static str,
    pub(crate) guard: GuardLevel,
    pub(crate) quarantine_bytes: u64,
}

/// How blocks are guarded against writes past their ends, and into freed ones. See [the crate](crate#who-wrote-over-it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GuardLevel {
    /// Not at all.
    #[default]
    Off,
    /// A canary on each side of a block, which the allocator inside is asked for as well: 20 bytes a block, rounded up to 16, or as much as its
    /// alignment. Looked at when a block is given back or resized, at checks and at the end.
    Light,
    /// Blocks lie far apart in memory of the guard's own, and not the allocator's. New ones are filled with `CE`, freed ones with `FE`, and these
    /// wait before their memory is used again: a write into one is found.
    Full,
}

/// What becomes of the ledger when the program ends by `exit`, or `main` returns. (After any other end it stays where it is.)
///
/// Under `heapledger run` none of this happens: who waits for the program takes care of its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtExit {
    /// It is written to a file, `heapledger.PROGRAM.PID.hl` in the working directory, and goes. If that file cannot be written, it
    /// stays, and a line on standard error says so.
    Finish,
    /// It stays where it is. `heapledger recover` finds it, and makes a small file of it.
    Keep,
    /// It goes: the program has looked at it while it ran, or somebody else has.
    Remove,
}

/// How recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// With the first call.
    AtOnce,
    /// With the first call, paused.
    Paused,
    /// When the program says so.
    WhenTold,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// All blocks from the first on, in a file in the first usable place (`/dev/shm`, the user's runtime directory, `$TMPDIR`,
    /// `/tmp`), with a history of 65,536 freed blocks.
    pub const fn new() -> Options {
        Options {
            directory: "",
            in_memory: false,
            begins: Begins::AtOnce,
            counts: false,
            ledger_bytes_max: 0,
            history: 65_536,
            depth: 512,
            free_depth: 1,
            sample_bytes: 0,
            accounts: true,
            at_exit: AtExit::Finish,
            output: "",
            guard: GuardLevel::Off,
            quarantine_bytes: QUARANTINE_BYTES,
        }
    }

    /// Where the ledger lies while the program runs: in a directory of this user's own below this one.
    #[must_use]
    pub const fn directory(self, directory: &'static str) -> Options {
        Options { directory, ..self }
    }

    /// The ledger is memory of the process, and no file: other processes cannot read it, and it ends with the process, unless
    /// [`AtExit::Finish`] writes it out before.
    #[must_use]
    pub const fn in_memory(self) -> Options {
        Options { in_memory: true, ..self }
    }

    /// Nothing is recorded before [`start`](crate::start), unless the variable says `begin=now`. Until then a call costs one jump more.
    #[must_use]
    pub const fn off(self) -> Options {
        Options { begins: Begins::WhenTold, ..self }
    }

    /// Calls are counted and nothing is recorded: totals of the program and of each thread, see [`stats`](crate::stats) and
    /// [`thread_stats`](crate::thread_stats). No ledger, and no stacks, before [`start`](crate::start). This is what there is on
    /// other systems than x86-64 Linux.
    #[must_use]
    pub const fn counting(self) -> Options {
        self.off().counted()
    }

    /// Calls are counted as well, from the first one on. (Regions count by themselves as long as they are open.)
    #[must_use]
    pub const fn counted(self) -> Options {
        Options { counts: true, ..self }
    }

    /// There is a ledger from the first call on, but blocks are not entered before [`resume`](crate::resume).
    #[must_use]
    pub const fn paused(self) -> Options {
        Options { begins: Begins::Paused, ..self }
    }

    /// The file that [`AtExit::Finish`] writes; it is replaced if it exists.
    #[must_use]
    pub const fn output(self, path: &'static str) -> Options {
        Options { output: path, ..self }
    }

    /// What becomes of the ledger when the program ends; by default it is finished.
    #[must_use]
    pub const fn at_exit(self, at_exit: AtExit) -> Options {
        Options { at_exit, ..self }
    }

    /// Most bytes of the ledger. By default a quarter of the machine's or the container's memory, at most 8 GiB.
    #[must_use]
    pub const fn ledger_bytes_max(self, bytes: u64) -> Options {
        Options { ledger_bytes_max: bytes, ..self }
    }

    /// How many freed blocks are kept, rounded up to 64; 0 for none.
    #[must_use]
    pub const fn history(self, blocks: u64) -> Options {
        Options { history: blocks, ..self }
    }

    /// Most frames of a stack, up to 4096.
    #[must_use]
    pub const fn depth(self, frames: u64) -> Options {
        Options { depth: frames, ..self }
    }

    /// How many frames are taken of the stack of a call that frees a block: 1, as by default, is its caller, 0 is none, [`u64::MAX`] all of
    /// them, which costs nearly as much as the stack of an allocation. With a [guard](Options::guard) it is always all.
    ///
    /// ```
    /// use heapledger::Options;
    /// const OPTIONS: Options = Options::new().free_depth(u64::MAX);
    /// ```
    #[must_use]
    pub const fn free_depth(self, frames: u64) -> Options {
        Options { free_depth: frames, ..self }
    }

    /// Records on average one block for each so many bytes allocated: for programs that run for long. Reports show unbiased
    /// estimates.
    #[must_use]
    pub const fn sampled(self, bytes: u64) -> Options {
        Options { sample_bytes: bytes, ..self }
    }

    /// Guards blocks: who writes past an end of one, or into one that was freed, is found out. (Without a guard this costs nothing.) It begins
    /// when recording begins; see [`GuardLevel`].
    ///
    /// ```
    /// use heapledger::{GuardLevel, Heapledger, Options};
    /// use std::alloc::System;
    ///
    /// #[global_allocator]
    /// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().guard(GuardLevel::Light));
    ///
    /// fn main() {
    ///     let mut block = vec![1u8; 100];
    ///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return }
    ///     assert_eq!(heapledger::check_integrity(), Ok(0));
    ///     let behind = block.as_mut_ptr().wrapping_add(100);
    ///     // What a bug would do: a byte behind the block is another one for a while.
    ///     let before = unsafe { behind.read_volatile() };
    ///     unsafe { behind.write_volatile(0) };
    ///     assert_eq!(heapledger::check_block(block.as_ptr()), Ok(true));
    ///     unsafe { behind.write_volatile(before) };
    ///     # heapledger::discard();
    /// }
    /// ```
    #[must_use]
    pub const fn guard(self, level: GuardLevel) -> Options {
        Options { guard: level, ..self }
    }

    /// With [`GuardLevel::Full`]: so many bytes of memory are taken by freed blocks that wait, with
    /// what is kept of them, before it is used again; by default 64 MiB.
    #[must_use]
    pub const fn quarantine_bytes(self, bytes: u64) -> Options {
        Options { quarantine_bytes: bytes, ..self }
    }

    /// Whether it is accounted for which thread holds how much, now and at most, and who freed it: `heapledger stats` shows it.
    /// By default it is; that takes about 42 instructions of a block's thousand.
    #[must_use]
    pub const fn accounts(self, kept: bool) -> Options {
        Options { accounts: kept, ..self }
    }
}
