//! What `run`, the recorder and the readers say to each other beside the ledger itself: names, keys, endings, limits and
//! defaults. Each stands here once, and both halves read it here; what is done with them is not known here.

use crate::record::Options;
use crate::sample;
use core::ffi::CStr;

/// The environment variable that the recorder reads: `key=value,key=value…`.
pub const VARIABLE: &str = "HEAPLEDGER";
/// Longest value of it that is read.
pub const VARIABLE_BYTES_MAX: usize = 4096;

macro_rules! keys {
    ($($(#[$doc:meta])* $id:ident = $name:literal;)*) => {
        /// A key of the variable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Key { $($(#[$doc])* $id),* }
        /// The status of a program that was not to run unrecorded ([`Key::Require`]), and of `run` where it fails itself.
pub const NOT_RECORDED_STATUS: u8 = 125;

impl Key {
            /// All of them.
            pub const ALL: [Key; [$(Key::$id),*].len()] = [$(Key::$id),*];
            /// As it is written.
            pub const fn name(self) -> &'static str {
                match self { $(Key::$id => $name),* }
            }
        }
    };
}

keys! {
    /// Where the directory of ledgers is.
    Dir = "dir";
    /// The run's number, in hexadecimal digits.
    Session = "session";
    /// The one process that is to be recorded.
    Pid = "pid";
    /// Most bytes of the ledger.
    MaxLedger = "max-ledger";
    /// How many freed blocks are remembered.
    History = "history";
    /// Most frames of a stack.
    Depth = "depth";
    /// What is not recorded: any of [`PARTS`], joined by `+`.
    Without = "without";
    /// Mean bytes between two samples.
    Sample = "sample";
    /// One of [`unwind::ALL`].
    Unwind = "unwind";
    /// Fewest frames with which a fast stack is believed.
    Fallback = "fallback";
    /// 1: every stack is taken twice, and compared.
    CheckStacks = "check-stacks";
    /// 0: the last stack is of no help with the next.
    Reuse = "reuse";
    /// 1: it is accounted for who holds how much of which heap.
    Accounts = "accounts";
    /// A label of the whole run, `KEY=VALUE`; several.
    Label = "label";
    /// When a program that records itself begins: one of [`begin::ALL`].
    Begin = "begin";
    /// What becomes of its ledger at its end: one of [`at_exit::ALL`].
    AtExit = "at-exit";
    /// The file that the ledger is finished into.
    Output = "output";
    /// How blocks are guarded: one of [`guard::ALL`].
    Guard = "guard";
    /// Where freed blocks wait before their memory is used again: those that take so many bytes.
    Quarantine = "quarantine";
    /// Where each block has pages of its own: so many bytes of them.
    GuardMemory = "guard-memory";
    /// How pages are closed: one of [`guard_by::ALL`].
    GuardBy = "guard-by";
    /// And so many of them.
    QuarantineBlocks = "quarantine-blocks";
    /// Guarded blocks are looked at again and again: after so many allocations, or so many milliseconds (`50ms`).
    CheckEvery = "check-every";
    /// What new blocks are filled with, where they are: a byte in two hexadecimal digits, or [`guard::NO_FILL`].
    FillNew = "fill-new";
    /// The same of freed ones.
    FillFreed = "fill-freed";
    /// So many bytes of a block are filled at most.
    FillBytes = "fill-bytes";
    /// So many bytes are watched on both sides of a block at least, where blocks lie apart.
    Redzone = "redzone";
    /// 1: the program ends with the first error.
    HaltOnError = "halt-on-error";
    /// Most frames of the stack of a call or an access that is an error.
    ErrorDepth = "error-depth";
    /// What blocks at closed pages are aligned to at least: 16, or less, so that they end closer to their page.
    GuardAlign = "guard-align";
    /// What is taken of the stack of a call that ends a block: a [`FreeDepth`](crate::FreeDepth).
    FreeDepth = "free-depth";
    /// Which processes are recorded beside that one, each in a ledger of its own: [patterns](crate::family::children_match) of names of programs.
    Children = "children";
    /// 1: stacks have lines of Python.
    Python = "python";
    /// The library was opened in a program that ran, so many milliseconds after its start.
    Attached = "attached";
    /// 1: if there can be no ledger of the process that [`Key::Pid`] names, it ends at once, with [`NOT_RECORDED_STATUS`].
    Require = "require";
}

impl Key {
    /// Whether it belongs to one process, and not to whatever a person starts: `run` makes its own, or does without.
    pub const fn is_of_one_process(self) -> bool {
        use Key::{AtExit, Attached, Begin, Children, Output, Pid, Require, Session};
        matches!(self, Session | Pid | Begin | AtExit | Output | Children | Attached | Require)
    }

    /// Whether it says how blocks are guarded.
    pub const fn is_of_guard(self) -> bool {
        matches!(
            self,
            Key::Guard
                | Key::GuardMemory
                | Key::GuardBy
                | Key::GuardAlign
                | Key::Quarantine
                | Key::QuarantineBlocks
                | Key::CheckEvery
                | Key::FillNew
                | Key::FillFreed
                | Key::FillBytes
                | Key::Redzone
                | Key::HaltOnError
                | Key::ErrorDepth
        )
    }

    /// That of this name.
    pub fn of(name: &[u8]) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name().as_bytes() == name)
    }
}

/// What [`Key::Without`] can leave out, and the option that it takes away.
pub const PARTS: [(&str, u32); 6] = [
    ("actual", Options::ACTUAL_SIZE),
    ("time", Options::TIME),
    ("thread", Options::THREAD),
    ("stack", Options::STACK),
    ("history", Options::HISTORY),
    ("heap", Options::HEAP),
];

/// Values of [`Key::Begin`].
pub mod begin {
    /// With the first call of all.
    pub const NOW: &str = "now";
    /// The same, but blocks pass by until the program resumes.
    pub const PAUSED: &str = "paused";
    /// When the program says so.
    pub const LATER: &str = "later";
    /// All of them.
    pub const ALL: [&str; 3] = [NOW, PAUSED, LATER];
}

/// Values of [`Key::AtExit`].
pub mod at_exit {
    /// It stays where it is, unfinished.
    pub const KEEP: &str = "keep";
    /// It is written out as a finished ledger.
    pub const FINISH: &str = "finish";
    /// It is removed.
    pub const REMOVE: &str = "remove";
    /// All of them.
    pub const ALL: [&str; 3] = [KEEP, FINISH, REMOVE];
}

/// Values of [`Key::Guard`], and of [`process::GUARD`].
pub mod guard {
    /// Not at all.
    pub const OFF: &str = "off";
    /// By canaries on both sides of each block.
    pub const LIGHT: &str = "light";
    /// The same, and blocks are filled, lie far apart, and wait when they are freed.
    pub const FULL: &str = "full";
    /// Each block ends at a page that cannot be touched, and the pages of freed ones cannot.
    pub const PAGE: &str = "page";
    /// The same, and each begins at such a page.
    pub const PAGE_UNDER: &str = "page=under";
    /// The same, at one of both.
    pub const PAGE_BOTH: &str = "page=both";
    /// All of them but [`one_in`], the least first.
    pub const ALL: [&str; 6] = [OFF, LIGHT, FULL, PAGE, PAGE_UNDER, PAGE_BOTH];
    /// What stands in front of a number: the same as [`PAGE_BOTH`], of one block in so many, those of new call sites first.
    pub const PAGE_ONE_IN: &str = "page=1/";

    /// The number in `page=1/N`, at least 1. `None` if it is another value.
    pub fn one_in(value: &[u8]) -> Option<u32> {
        let digits = value.strip_prefix(PAGE_ONE_IN.as_bytes())?;
        core::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number != 0)
    }

    /// Blocks that wait unless told otherwise, and at most.
    pub const QUARANTINE_BLOCKS: u64 = 1 << 20;
    /// What new blocks hold unless told otherwise.
    pub const FILL_NEW: u8 = 0xCE;
    /// What freed ones hold.
    pub const FILL_FREED: u8 = 0xFE;
    /// In place of a byte: blocks are not filled.
    pub const NO_FILL: &str = "off";
    /// So many bytes of a block are filled unless told otherwise.
    pub const FILL_BYTES: u64 = 64 << 10;
    /// Most that can be asked for on both sides of a block.
    pub const REDZONE_MAX: u64 = 2048;
    /// What every block is aligned to.
    pub const ALIGN: u64 = 16;
    /// Ends the value of a time between two looks.
    pub const MILLISECONDS: &str = "ms";
    /// Longest such time, and most allocations.
    pub const CHECK_EVERY_MAX: u64 = 1 << 32;

    /// When guarded blocks are looked at, beside when they end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Every {
        /// Never. (The first: a value that is all zeros.)
        #[default]
        Never,
        /// After so many allocations.
        Allocations(u64),
        /// After so many milliseconds.
        Ms(u64),
    }

    impl Every {
        /// `1000` or `50ms`, at least 1.
        pub fn parse(text: &[u8]) -> Option<Every> {
            let (digits, is_time) =
                text.strip_suffix(MILLISECONDS.as_bytes()).map_or((text, false), |digits| (digits, true));
            let number = core::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit))?;
            let number = number.parse().ok().filter(|number| (1..=CHECK_EVERY_MAX).contains(number))?;
            Some(if is_time { Every::Ms(number) } else { Every::Allocations(number) })
        }
    }

    /// The byte that blocks are filled with, `ce`, or `None` for [`NO_FILL`]; `None` outside if the text is neither.
    pub fn parse_fill(text: &[u8]) -> Option<Option<u8>> {
        if text == NO_FILL.as_bytes() {
            return Some(None);
        }
        let digits = core::str::from_utf8(text).ok().filter(|digits| digits.len() == 2)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u8::from_str_radix(digits, 16).ok().map(Some)
    }

    /// Whether calls of the C library are held against blocks then: where all of these lie in memory of the guard's own. Where a few do, to
    /// look at each call would cost more than they.
    pub fn judges_calls(value: &str) -> bool {
        value != OFF && value != LIGHT && one_in(value.as_bytes()).is_none()
    }
}

/// Values of [`Key::GuardBy`].
pub mod guard_by {
    /// By advice to the kernel where it takes that, which needs no mappings; else by protection.
    pub const ADVICE: &str = "advice";
    /// By their protection.
    pub const PROTECTION: &str = "protection";
    /// Both.
    pub const ALL: [&str; 2] = [ADVICE, PROTECTION];
}

/// The name of the library that C programs are linked with: the preload library under another one. The loader takes what was preloaded
/// for it, so that there is one in a process.
pub const LINKED_LIBRARY: &str = "libheapledger.so.0";

/// Values of [`Key::Unwind`], and of [`process::UNWIND`].
pub mod unwind {
    /// Unwind tables, frame pointers for code without.
    pub const AUTO: &str = "auto";
    /// Frame pointers first.
    pub const FAST: &str = "fast";
    /// As `auto`, with nothing remembered.
    pub const SLOW: &str = "slow";
    /// Unwind tables only.
    pub const TABLES: &str = "tables";
    /// Frame pointers only.
    pub const FRAME_POINTERS: &str = "frame-pointers";
    /// All of them.
    pub const ALL: [&str; 5] = [AUTO, FAST, SLOW, TABLES, FRAME_POINTERS];
}

/// Entries of the history unless told otherwise: 4 MiB when full, a few seconds of a busy server's frees. eCos' 2,048
/// would be milliseconds. A program that frees little never fills it.
pub const HISTORY_ENTRIES: u64 = 65_536;
/// Bytes of freed blocks that wait unless told otherwise, where they do.
pub const QUARANTINE_BYTES: u64 = 64 << 20;
/// Most that can be asked for: 4 GiB.
pub const HISTORY_ENTRIES_MAX: u64 = 1 << 26;
/// Frames of a stack unless told otherwise. Compilers go beyond 126.
pub const DEPTH_LIMIT: u64 = 512;
/// Most that can be asked for.
pub const DEPTH_LIMIT_MAX: u64 = 4096;
/// Fewest frames with which a stack found by frame pointers is believed, unless told otherwise.
pub const FALLBACK: u64 = 3;
/// Most bytes between two samples: 1 TiB.
pub const SAMPLE_MAX: u64 = sample::INTERVAL_MAX;
/// Most that a ledger takes unless told otherwise: room for 200 million blocks.
pub const LEDGER_BYTES_DEFAULT_MAX: u64 = 8 << 30;
/// And it takes this part of the memory at most: a quarter.
pub const LEDGER_MEMORY_PART: u64 = 4;

/// Most bytes of all [`Key::Label`]s of a run, with a byte between two.
pub const LABELS_BYTES_MAX: usize = 511;

/// Whether this can be a label of a run: `KEY=VALUE` with a key, and no control characters.
pub fn is_label(label: &[u8]) -> bool {
    let key = label.iter().position(|byte| *byte == b'=');
    key.is_some_and(|key| key > 0) && !label.iter().any(u8::is_ascii_control)
}

/// What may hold the directories of ledgers, one for each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// This directory.
    Path(&'static CStr),
    /// What this variable of the environment names.
    Variable(&'static str),
}

/// Where they are looked for and made unless [`Key::Dir`] says otherwise, best first. The runtime directory goes when its
/// user logs out, whoever that is, and usually holds a tenth of the memory; `/dev/shm` holds half of it, and is emptied at
/// logout (RemoveIPC) of ordinary users only.
pub const BASES: [Base; 4] =
    [Base::Path(c"/dev/shm"), Base::Variable("XDG_RUNTIME_DIR"), Base::Variable("TMPDIR"), Base::Path(c"/tmp")];

/// How the name of such a directory begins; the number of its user follows.
pub const DIRECTORY: &str = "heapledger-";

/// Endings of names in it: `SESSION-IMAGE.hlive`, of a child process `SESSION-IMAGE-PID.hlive`, `SESSION.children` …
pub mod ending {
    /// Of an unfinished ledger.
    pub const LIVE: &str = ".hlive";
    /// Of the list of children that were not watched: a line with the number of each.
    pub const CHILDREN: &str = ".children";
    /// Of the symbolic link to a program that could not be recorded.
    pub const UNRECORDED: &str = ".unrecorded";
    /// Of the sign that no further process is to be recorded: there are as many as were allowed, or their ledgers are as large.
    pub const FULL: &str = ".full";
    /// Of the symbolic link to the directory of a session of several processes.
    pub const FAMILY: &str = ".session";
    /// Of the sign that the `run` of a session lives.
    pub const RUN: &str = ".run";
    /// Of the symbolic link to where a finished ledger is being written; and of that directory, `.NAME.PID.part`.
    pub const PART: &str = ".part";
    /// Of a finished ledger.
    pub const FINISHED: &str = ".hl";
}

/// Keys of the section `process`. FORMAT.md says what each holds.
pub mod process {
    /// The process's number, as it numbers itself.
    pub const PID: &str = "pid";
    /// Its parent's.
    pub const PPID: &str = "ppid";
    /// When it started: field 22 of `/proc/PID/stat`.
    pub const START_TICKS: &str = "start_ticks";
    /// The namespace of these numbers, by the number that the kernel gives it.
    pub const PID_NS: &str = "pid_ns";
    /// Its user.
    pub const UID: &str = "uid";
    /// The run.
    pub const SESSION: &str = "session";
    /// How many times the process had called exec before.
    pub const IMAGE: &str = "image";
    /// The executable.
    pub const EXE: &str = "exe";
    /// The working directory at the start.
    pub const CWD: &str = "cwd";
    /// The last part of the name by which it was called.
    pub const PROGRAM: &str = "program";
    /// An argument; several.
    pub const ARG: &str = "arg";
    /// What a program called `python…` was told by `PYTHONMALLOC`: by what it allocates small objects.
    pub const PYTHONMALLOC: &str = "pythonmalloc";
    /// Of which Python stacks have lines: its version, `3.11.2`; or, behind a `!`, why they have none.
    pub const PYTHON: &str = "python";
    /// Whose `malloc` is called.
    pub const NEXT: &str = "next";
    /// Whose `operator new` is called.
    pub const CXX: &str = "cxx";
    /// How stacks are found: one of [`super::unwind::ALL`].
    pub const UNWIND: &str = "unwind";
    /// What was taken of the stacks of calls that ended blocks: a [`FreeDepth`](crate::FreeDepth). Missing: all of them.
    pub const FREE_DEPTH: &str = "free_depth";
    /// How blocks are guarded: one of [`super::guard::ALL`]; not there: not at all.
    pub const GUARD: &str = "guard";
    /// Where in the memory of the process the guard says where its tables are ([`crate::guard`]), in decimal; not there: nothing is guarded.
    pub const GUARD_AT: &str = "guard_at";
    /// Entries of the history.
    pub const HISTORY: &str = "history";
    /// Most bytes of the ledger, as asked for.
    pub const MAX_LEDGER: &str = "max_ledger";
    /// Of the recorder.
    pub const VERSION: &str = "version";
    /// The program's exit code.
    pub const EXIT: &str = "exit";
    /// The signal that ended it.
    pub const SIGNAL: &str = "signal";
    /// That it became another program: [`BY_EXEC`].
    pub const ENDED: &str = "ended";
    /// The value of [`ENDED`].
    pub const BY_EXEC: &str = "exec";
    /// How long it ran.
    pub const WALL_NS: &str = "wall_ns";
    /// When the ledger was finished.
    pub const FINISHED_UNIX_NS: &str = "finished_unix_ns";
    /// By which version.
    pub const RUN_VERSION: &str = "run_version";
    /// When a copy was made.
    pub const COPIED_UNIX_NS: &str = "copied_unix_ns";
    /// The moment of a snapshot.
    pub const SNAPSHOT_UNIX_NS: &str = "snapshot_unix_ns";
    /// For how long the program was held for it.
    pub const SNAPSHOT_HELD_NS: &str = "snapshot_held_ns";
    /// Records that were being written.
    pub const SNAPSHOT_IN_FLIGHT: &str = "snapshot_in_flight";
    /// `ALLOCATIONS:FREES` when it began.
    pub const SNAPSHOT_BEFORE: &str = "snapshot_before";
    /// Bytes of storage that the live ledger had.
    pub const LEDGER_BYTES: &str = "ledger_bytes";
    /// What its section rows said.
    pub const SECTIONS: &str = "sections";
    /// Name of the machine.
    pub const HOST: &str = "host";
    /// Which machine it is, by a hash of its number.
    pub const MACHINE_ID: &str = "machine_id";
    /// The container that the process ran in.
    pub const CONTAINER: &str = "container";
    /// Begins the key of a label of the whole run; the label's own key follows.
    pub const LABEL_PREFIX: &str = "label.";
    /// What moment of its run a ledger is of: [`AT_END`], or nanoseconds since 1970.
    pub const MOMENT: &str = "moment";
    /// The value of [`MOMENT`] where the program had ended.
    pub const AT_END: &str = "end";
    /// The id of the ledger of the process that this one was forked from, 32 hexadecimal digits.
    pub const PARENT_ID: &str = "parent_id";
    /// That process's number, as it numbered itself: it may have ended, and somebody else be the parent, when the child begins.
    pub const PARENT_PID: &str = "parent_pid";
    /// When that was noticed, in nanoseconds since 1970: at its first call after the fork.
    pub const FORKED_UNIX_NS: &str = "forked_unix_ns";
    /// Of how many forks of recorded processes it has come, one after the other.
    pub const FORKS: &str = "forks";
    /// The program ran before it was recorded: for so many milliseconds. Missing: it was recorded from its start, or by itself.
    pub const ATTACHED_MS: &str = "attached_ms";
    /// Path of a module that has a `malloc` of its own and comes before the recorder's library.
    pub const AHEAD: &str = "malloc_ahead";
    /// What kind of log the ledger was made of.
    pub const LOG: &str = "log";
    /// Of a ledger without modules: the build id of the program, in hexadecimal digits, or any text that the program holds behind this key.
    pub const BUILD_ID: &str = "build_id";
    /// Hash of the program's file, as a log tells it.
    pub const ELF_SHA256: &str = "elf_sha256";
    /// Begins the key of something that whoever made the ledger of a log says of it, a sentence; a number follows.
    pub const REMARK_PREFIX: &str = "remark.";
    /// The same of something that is missing, so that figures may be wrong.
    pub const MISSING_PREFIX: &str = "missing.";
    /// Begins the key of the name of a kind that the ledger names itself; its number follows.
    pub const KIND_PREFIX: &str = "kind.";
    /// The same of its name as the call that ends a block, where that is another.
    pub const KIND_FREE_PREFIX: &str = "kind_free.";
}

/// A sanitizer whose run-time library replaces `malloc` itself: nothing is recorded beside it.
#[derive(Clone, Copy, Debug)]
pub struct Sanitizer {
    /// As it calls itself.
    pub name: &'static str,
    /// gcc's library is `libNAME.so`, clang's `libclang_rt.NAME….so`.
    pub library: &'static str,
    /// What it defines, and nobody else.
    pub symbol: &'static str,
}

/// All of them. The undefined behaviour sanitizer is none: it leaves `malloc` alone.
pub const SANITIZERS: [Sanitizer; 6] = [
    Sanitizer { name: "AddressSanitizer", library: "asan", symbol: "__asan_init" },
    Sanitizer { name: "HWAddressSanitizer", library: "hwasan", symbol: "__hwasan_init" },
    Sanitizer { name: "ThreadSanitizer", library: "tsan", symbol: "__tsan_init" },
    Sanitizer { name: "LeakSanitizer", library: "lsan", symbol: "__lsan_init" },
    Sanitizer { name: "MemorySanitizer", library: "msan", symbol: "__msan_init" },
    Sanitizer { name: "MemProf", library: "memprof", symbol: "__memprof_init" },
];

/// Whose note it is by which a module says that it has a recorder inside, and leads others to it; without the zero at its end. What it
/// holds is told where it is written, in the recorder of a Linux process.
pub const RECORDER_NOTE: &str = "heapledger";
/// The kind of that note.
pub const RECORDER_NOTE_KIND: u32 = 0x484C;
