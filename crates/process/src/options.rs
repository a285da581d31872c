//! What is asked of the recorder: a value, and the environment variable `HEAPLEDGER` (`key=value,key=value…`), which wins.
#![forbid(unsafe_code)]

use crate::family::ForkedFrom;
use crate::guarding::Guarding;
use crate::history::CHUNK_ENTRIES;
use crate::life::Unrecorded;
use core::ffi::CStr;
use heapledger_format::FreeDepth;
use heapledger_format::family::CHILDREN_BYTES_MAX;
use heapledger_format::record::Options;
use heapledger_format::session::{
    self, DEPTH_LIMIT, DEPTH_LIMIT_MAX, FALLBACK, HISTORY_ENTRIES, HISTORY_ENTRIES_MAX, Key, LABELS_BYTES_MAX,
    SAMPLE_MAX,
};
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::process;
use heapledger_linux::text::{self, Text};
use heapledger_unwind::Strategy;

/// How stacks are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unwind {
    /// Unwind tables, checked against the last stack; frame pointers for code without tables.
    #[default]
    Auto,
    /// Frame pointers; [`Unwind::Auto`] for a stack of which they yield too few.
    Fast,
    /// As [`Unwind::Auto`], but nothing is remembered: each frame's table is read each time.
    Slow,
    /// As [`Unwind::Auto`], but a stack ends at code without tables.
    Tables,
    /// Frame pointers only.
    FramePointers,
}

impl Unwind {
    const NAMES: [(&str, Unwind); session::unwind::ALL.len()] = [
        (session::unwind::AUTO, Unwind::Auto),
        (session::unwind::FAST, Unwind::Fast),
        (session::unwind::SLOW, Unwind::Slow),
        (session::unwind::TABLES, Unwind::Tables),
        (session::unwind::FRAME_POINTERS, Unwind::FramePointers),
    ];

    /// What it is called.
    pub fn name(self) -> &'static [u8] {
        Self::NAMES.iter().find(|(_, unwind)| *unwind == self).map_or(b"", |(name, _)| name.as_bytes())
    }

    /// Whether the last stack helps with the next.
    #[inline(always)]
    pub fn remembers(self) -> bool {
        matches!(self, Unwind::Auto | Unwind::Tables)
    }

    /// How a single walk goes.
    #[inline(always)]
    pub fn strategy(self) -> Strategy {
        match self {
            Unwind::Auto | Unwind::Slow => Strategy::Auto,
            Unwind::Tables => Strategy::Tables,
            Unwind::Fast | Unwind::FramePointers => Strategy::FramePointers,
        }
    }
}

/// Whether accounts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// No.
    #[default]
    None,
    /// Of each thread and heap.
    ByThreadAndHeap,
}

impl Accounting {
    /// Whether or not.
    pub const fn of(kept: bool) -> Accounting {
        if kept { Accounting::ByThreadAndHeap } else { Accounting::None }
    }
}

/// Which scripts' lines stacks have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scripts {
    /// None.
    #[default]
    None,
    /// Those that Python runs: see [`python`](crate::python).
    Python,
}

/// When a program that records itself begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// With the first call of all.
    Now,
    /// When it says so.
    Later,
}

/// What becomes of the ledger at the end of a program that records itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtExit {
    /// It stays where it is, unfinished.
    Keep,
    /// It is written out as a finished ledger.
    Finish,
    /// It is removed.
    Remove,
}

impl AtExit {
    fn named(name: &[u8]) -> Option<AtExit> {
        let all = [
            (session::at_exit::KEEP, AtExit::Keep),
            (session::at_exit::FINISH, AtExit::Finish),
            (session::at_exit::REMOVE, AtExit::Remove),
        ];
        all.into_iter().find(|(known, _)| known.as_bytes() == name).map(|(_, at_exit)| at_exit)
    }
}

/// What was asked for. A library of hooks for unmodified programs begins with the defaults; one that a program is linked with
/// begins with what the program asks for. What the person sets in the variable is set over that.
pub struct Request {
    /// Where ledgers are kept; empty: choose.
    pub dir: Text<PATH_BYTES_MAX>,
    /// The run's id; `None`: make one.
    pub session: Option<u64>,
    /// Record only in this process.
    pub pid: Option<u64>,
    /// Most bytes of the ledger; `None`: from the machine's and the container's memory.
    pub max_ledger: Option<u64>,
    /// Entries of the history ring.
    pub history: u64,
    /// Most frames of a stack.
    pub depth: u64,
    /// What is taken of the stack of a call that ends a block. All of it where blocks are guarded.
    pub free_depth: FreeDepth,
    /// What to record.
    pub options: Options,
    /// How stacks are taken.
    pub unwind: Unwind,
    /// Fewest frames with which a stack found by [`Unwind::Fast`] is believed.
    pub fallback: u64,
    /// Every stack is also taken in full and compared.
    pub check_stacks: bool,
    /// The last stack is used for the next; off only to measure what that saves.
    pub reuse: bool,
    /// Mean bytes between two samples; 0: every block.
    pub sample: u64,
    /// Whether it is accounted for who holds how much; not without threads.
    pub accounts: Accounting,
    /// Begins paused: see [`switch`](crate::switch).
    pub paused: bool,
    /// Where the program says itself what it records: see [`life`](crate::life).
    pub begins: Begins,
    /// What becomes of the ledger; `None`: what is usual there.
    pub at_exit: Option<AtExit>,
    /// The file that it is finished into; empty: one of the program's name.
    pub output: Text<PATH_BYTES_MAX>,
    /// The ledger is the process's own memory, and no file: it ends with the process, unless it is copied before.
    pub in_memory: bool,
    /// Forked children leave a word beside the ledger that they are not recorded: who finishes it counts them.
    pub notes_children: bool,
    /// What becomes of a process that cannot be recorded.
    pub unrecorded: Unrecorded,
    /// How blocks are guarded.
    pub guard: Guarding,
    /// Blocks were allocated before, and are freed later: a free of an unknown block tells of nothing that was lost.
    pub begins_late: bool,
    /// Labels of the whole run, `KEY=VALUE`, with line ends between.
    pub labels: Text<{ LABELS_BYTES_MAX + 1 }>,
    /// Which processes are recorded beside the one of [`Request::pid`], as patterns; empty: none.
    pub children: Text<{ CHILDREN_BYTES_MAX + 1 }>,
    /// This process was forked from one that is recorded, too.
    pub forked: Option<ForkedFrom>,
    /// The program ran before, for so many milliseconds.
    pub attached_ms: Option<u64>,
    /// Which scripts' lines stacks have.
    pub scripts: Scripts,
    /// A key or value that was not understood, for one message.
    pub unknown: Text<64>,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            dir: Text::new(),
            session: None,
            pid: None,
            max_ledger: None,
            history: HISTORY_ENTRIES,
            depth: DEPTH_LIMIT,
            free_depth: FreeDepth::CALLER,
            options: Options::ALL,
            unwind: Unwind::Auto,
            fallback: FALLBACK,
            check_stacks: false,
            reuse: true,
            sample: 0,
            accounts: Accounting::None,
            paused: false,
            begins: Begins::Now,
            at_exit: None,
            output: Text::new(),
            in_memory: false,
            notes_children: true,
            unrecorded: Unrecorded::GoesOn,
            guard: Guarding::usual(),
            begins_late: false,
            labels: Text::new(),
            children: Text::new(),
            forked: None,
            attached_ms: None,
            scripts: Scripts::None,
            unknown: Text::new(),
        }
    }
}

impl Request {
    /// What the person asked for who started the program.
    pub fn of_environment() -> Request {
        Request::default().under_environment()
    }

    /// The same, with what the person has set in the variable set over it.
    #[must_use]
    pub fn under_environment(mut self) -> Request {
        self.set_environment();
        self
    }

    /// The same, in its place: it is large, and the program's stack may be small.
    #[inline(never)]
    pub fn set_environment(&mut self) {
        // Who starts such a program decides nothing for it.
        if !process::is_privileged() {
            let value = process::environment::<{ session::VARIABLE_BYTES_MAX }>(session::VARIABLE.as_bytes());
            self.set_all(value.as_ref().map_or(&[], |value| value.bytes()));
        }
    }

    /// Reads the variable's value. What is not understood is left at its default and remembered.
    pub fn parse(value: &[u8]) -> Request {
        Request::default().under(value)
    }

    /// The same, with what a value of the variable sets. What is not understood is left as it is and remembered.
    #[must_use]
    pub fn under(mut self, value: &[u8]) -> Request {
        self.set_all(value);
        self
    }

    /// The same, in its place.
    pub fn set_all(&mut self, value: &[u8]) {
        for item in value.split(|byte| *byte == b',').filter(|item| !item.is_empty()) {
            let at = item.iter().position(|byte| *byte == b'=').unwrap_or(item.len());
            let (key, value) = (item.get(..at).unwrap_or(&[]), item.get(at.wrapping_add(1)..).unwrap_or(&[]));
            if self.set(key, value).is_none() {
                self.unknown = Text::new();
                self.unknown.push(item);
            }
        }
        // Whoever starts a program for somebody waits for a file.
        self.in_memory &= self.session.is_none() && self.dir.bytes().is_empty();
        if self.history == 0 {
            self.options.0 &= !Options::HISTORY;
        }
        if !self.options.has(Options::HISTORY) {
            self.history = 0;
        }
    }

    /// As many frames as a stack can have.
    pub fn depth_of(frames: u64) -> u64 {
        frames.clamp(1, DEPTH_LIMIT_MAX)
    }

    /// Rounded to what the history can have.
    pub fn history_of(entries: u64) -> u64 {
        entries.min(HISTORY_ENTRIES_MAX).next_multiple_of(CHUNK_ENTRIES)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let key = Key::of(key)?;
        match key {
            Key::Dir => {
                self.dir = text::percent_decoded(value);
                (!self.dir.is_cut()).then_some(())?;
            }
            Key::Session => self.session = Some(text::hex(value)?),
            Key::Pid => self.pid = Some(text::number(value)?),
            Key::MaxLedger => self.max_ledger = Some(text::number(value)?),
            Key::History => self.history = Request::history_of(text::number(value)?),
            Key::Depth => self.depth = Request::depth_of(text::number(value)?),
            Key::FreeDepth => self.free_depth = FreeDepth::parse(value)?,
            Key::Unwind => self.unwind = Unwind::NAMES.iter().find(|(name, _)| name.as_bytes() == value)?.1,
            Key::Fallback => self.fallback = text::number(value)?.min(DEPTH_LIMIT_MAX),
            Key::CheckStacks => self.check_stacks = switch(value)?,
            Key::Reuse => self.reuse = switch(value)?,
            Key::Sample => self.sample = text::number(value).filter(|bytes| *bytes <= SAMPLE_MAX)?,
            Key::Accounts => self.accounts = Accounting::of(switch(value)?),
            Key::Label => {
                let label: Text<PATH_BYTES_MAX> = text::percent_decoded(value);
                let room = LABELS_BYTES_MAX.checked_sub(self.labels.bytes().len())?;
                (session::is_label(label.bytes()) && !label.is_cut() && label.bytes().len() < room).then_some(())?;
                if !self.labels.bytes().is_empty() {
                    self.labels.push(b"\n");
                }
                self.labels.push(label.bytes());
            }
            Key::Begin => {
                let is = |name: &str| value == name.as_bytes();
                session::begin::ALL.into_iter().any(is).then_some(())?;
                self.paused = is(session::begin::PAUSED);
                self.begins = if is(session::begin::LATER) { Begins::Later } else { Begins::Now };
            }
            Key::Children => {
                self.children = text::percent_decoded(value);
                (!self.children.is_cut() && !self.children.bytes().is_empty()).then_some(())?;
            }
            Key::Require => self.unrecorded = if switch(value)? { Unrecorded::Ends } else { Unrecorded::GoesOn },
            Key::Attached => self.attached_ms = Some(text::number(value)?),
            Key::Python => self.scripts = if switch(value)? { Scripts::Python } else { Scripts::None },
            Key::AtExit => self.at_exit = Some(AtExit::named(value)?),
            Key::Output => {
                self.output = text::percent_decoded(value);
                (!self.output.is_cut() && !self.output.bytes().is_empty()).then_some(())?;
                self.at_exit = self.at_exit.or(Some(AtExit::Finish));
            }
            Key::Without => {
                for name in value.split(|byte| *byte == b'+') {
                    let (_, bit) = session::PARTS.iter().find(|(known, _)| known.as_bytes() == name)?;
                    self.options.0 &= !bit;
                }
            }
            // What is left is the guard's: see [`Key::is_of_guard`].
            key => self.guard.set(key, value)?,
        }
        Some(())
    }

    /// The directory as a path.
    pub fn dir(&self) -> Option<&CStr> {
        (!self.dir.bytes().is_empty()).then(|| self.dir.c_str())
    }
}

/// `0` or `1`.
fn switch(value: &[u8]) -> Option<bool> {
    match value {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_understood() {
        let request = Request::parse(
            b"dir=/a%2Cb%25,session=00ff,pid=7,max-ledger=1000,history=128,depth=9999,unwind=tables,without=time+heap",
        );
        assert_eq!(request.dir.bytes(), b"/a,b%");
        assert_eq!((request.session, request.pid, request.max_ledger), (Some(255), Some(7), Some(1000)));
        assert_eq!((request.history, request.depth), (128, DEPTH_LIMIT_MAX));
        assert_eq!(request.unwind, Unwind::Tables);
        assert!(!request.options.has(Options::TIME) && !request.options.has(Options::HEAP));
        assert!(request.options.has(Options::STACK));
        assert!(request.unknown.bytes().is_empty());
    }

    #[test]
    fn the_variable_wins_where_it_says_something() {
        let asked = || Request { depth: 7, history: 64, in_memory: true, sample: 100, ..Request::default() };
        let request = asked().under(b"");
        assert_eq!((request.depth, request.history, request.in_memory, request.sample), (7, 64, true, 100));
        let request = asked().under(b"depth=9,without=history");
        assert_eq!((request.depth, request.history, request.in_memory, request.sample), (9, 0, true, 100));
        assert!(!request.options.has(Options::HISTORY));
        for value in [&b"dir=/x"[..], b"session=1"] {
            assert!(!asked().under(value).in_memory);
        }
    }

    #[test]
    fn labels_are_kept_in_their_order() {
        let request = Request::parse(b"label=service=api,label=version=1%2C2=x,depth=9");
        assert_eq!(request.labels.bytes(), b"service=api\nversion=1,2=x");
        assert!(request.unknown.bytes().is_empty());
        for wrong in [&b"label=service"[..], b"label==api", b"label=a=b%0A", b"label="] {
            let request = Request::parse(wrong);
            assert_eq!((request.labels.bytes(), request.unknown.bytes()), (&b""[..], wrong));
        }
        // Those that fit are kept whole.
        let long = [&b"label=a="[..], &[b'x'; 300], b",label=b=", &[b'y'; 300], b",label=c=z"].concat();
        let request = Request::parse(&long);
        assert_eq!(request.labels.bytes(), [&b"a="[..], &[b'x'; 300], b"\nc=z"].concat());
        assert!(!request.unknown.bytes().is_empty());
    }

    #[test]
    fn ways_to_unwind_and_sampling_are_understood() {
        let request = Request::parse(b"");
        assert_eq!((request.unwind, request.fallback, request.sample), (Unwind::Auto, FALLBACK, 0));
        assert!(!request.check_stacks && request.reuse);
        assert_eq!(request.accounts, Accounting::None);
        let request = Request::parse(b"unwind=fast,fallback=7,sample=524288,check-stacks=1,reuse=0,accounts=1");
        assert_eq!(request.accounts, Accounting::ByThreadAndHeap);
        assert_eq!((request.unwind, request.unwind.strategy()), (Unwind::Fast, Strategy::FramePointers));
        assert_eq!((request.fallback, request.sample), (7, 524_288));
        assert!(request.check_stacks && !request.reuse);
        assert_eq!(request.scripts, Scripts::None);
        assert_eq!(Request::parse(b"python=1").scripts, Scripts::Python);
        assert_eq!(Request::parse(b"python=1").under(b"python=0").scripts, Scripts::None);
        assert!(request.unknown.bytes().is_empty());
        for (value, unwind) in Unwind::NAMES {
            assert_eq!(Request::parse(&[b"unwind=", value.as_bytes()].concat()).unwind, unwind);
        }
        let request = Request::parse(b"sample=1099511627776,fallback=99999,check-stacks=0,reuse=1");
        assert_eq!((request.sample, request.fallback), (SAMPLE_MAX, DEPTH_LIMIT_MAX));
        assert!(!request.check_stacks && request.reuse);
    }

    #[test]
    fn a_program_says_when_it_begins_and_what_becomes_of_its_ledger() {
        let usual = Request::parse(b"");
        assert_eq!((usual.paused, usual.begins, usual.at_exit), (false, Begins::Now, None));
        let request = Request::parse(b"begin=later,at-exit=remove,output=a%2Cb.hl");
        assert_eq!(
            (request.begins, request.at_exit, request.output.bytes()),
            (Begins::Later, Some(AtExit::Remove), &b"a,b.hl"[..])
        );
        let request = request.under(b"begin=paused,at-exit=keep");
        assert_eq!((request.paused, request.begins, request.at_exit), (true, Begins::Now, Some(AtExit::Keep)));
        assert_eq!(Request::parse(b"output=x.hl").at_exit, Some(AtExit::Finish));
        let (begin, at_exit) = (session::begin::ALL, session::at_exit::ALL);
        for item in begin
            .map(|name| ["begin=", name].concat())
            .into_iter()
            .chain(at_exit.map(|name| ["at-exit=", name].concat()))
        {
            assert!(Request::parse(item.as_bytes()).unknown.bytes().is_empty(), "{item}");
        }
    }

    #[test]
    fn a_history_is_never_shorter_than_was_asked_for() {
        for (asked, given) in [(&b"history=0"[..], 0), (b"history=1", 64), (b"history=64", 64), (b"history=1000", 1024)]
        {
            assert_eq!(Request::parse(asked).history, given);
        }
    }

    #[test]
    fn nonsense_is_remembered_and_changes_nothing() {
        for nonsense in [
            &b"colour=red"[..],
            b"pid=x",
            b"history=-1",
            b"without=sense",
            b"unwind=up",
            b"sample=",
            b"sample=1099511627777",
            b"fallback=few",
            b"check-stacks",
            b"accounts=2",
            b"check-stacks=yes",
            b"reuse=2",
            b"python",
            b"python=3",
            b"guard=heavy",
            b"guard=page=over",
            b"guard=page=1/0",
            b"guard=page=1/x",
            b"guard-by=magic",
            b"begin=soon",
            b"at-exit=",
            b"output=",
            b"=",
        ] {
            let request = Request::parse(nonsense);
            assert_eq!(request.unknown.bytes(), nonsense);
            assert_eq!(request.options, Options::ALL);
            assert_eq!((request.pid, request.unwind, request.sample), (None, Unwind::Auto, 0));
        }
        assert!(Request::parse(b"").unknown.bytes().is_empty());
        assert!(!Request::parse(b"history=0").options.has(Options::HISTORY));
        assert_eq!(Request::parse(b"without=history").history, 0);
    }
}
