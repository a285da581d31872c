//! Starting to record: the first call of a process comes here.
//!
//! # fork, vfork, clone, exec
//!
//! - **fork, `_Fork`, raw clone without shared memory.** A page marked `MADV_WIPEONFORK` reads as zero in the child.
//!   `Access::enter` looks before any store. It is the same word that says off, paused, on (`switch.rs`). The child adds a line to
//!   `SESSION.children` and goes on unrecorded, or begins a ledger of its own (`family.rs`).
//! - **vfork, `CLONE_VM`.** The child shares the heap, so its calls are entered like the parent's.
//! - **exec.** The old mapping goes with the old program; its ledger is complete as it is. The library starts anew in
//!   the new program, finds the name `SESSION-0` taken and opens `SESSION-1`. `run` finishes all of them; the last
//!   one is what was asked for. If the process is another user's by then, it makes a directory of that user beside
//!   the first (`Keeper::ledgers` looks into all, and orders by time).
//! - **A program started by a child** finds `pid=` of another process in `HEAPLEDGER`, adds a line to
//!   `SESSION.children` and records nothing; if `children=` names it, it opens `SESSION-IMAGE-PID`.

#![forbid(unsafe_code)]

use crate::anchored;
use crate::complaints;
pub use crate::complaints::complain;
use crate::depth_in_force;
use crate::described;
use crate::family::{self, ForkedChildren, Wanted};
use crate::guarded::Level;
use crate::guarding::Guarding;
use crate::heaps;
use crate::history::CHUNK_ENTRIES;
use crate::ledger::Ledger;
use crate::once::Starting;
use crate::options::{Accounting, Request, Scripts};
use crate::place::{Opening, push_ledger_dir, usable_dir};
use crate::room;
use crate::shared::{Phase, Settings, Shared};
use crate::switch::Recording;
use crate::ways;
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use heapledger_format::header::State;
use heapledger_format::record::Options;
use heapledger_format::session::{self, SANITIZERS, ending, process as key};
use heapledger_format::{FreeDepth, SectionKind};
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::syscall::{self, open_flag};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, loader, process, stack, unloading};

/// What the library of hooks knows and the ledger should hold.
pub struct Hooks<'a> {
    /// Path of the module whose `malloc` is called.
    pub next: &'a CStr,
    /// Path of the module whose `operator new` is called; empty if it is not known yet.
    pub cxx: &'a CStr,
    /// Path of a module with a `malloc` to which the program's calls go before us; empty for the program's own file.
    pub ahead: Option<&'a CStr>,
    /// Names of the heaps, in the order of their rows.
    pub heaps: &'a [&'a [u8]],
    /// Whether it says of all memory that the program unmaps or protects ([`Shared::memory_changes`]): what is known of a stack
    /// that is not the thread's own is believed no longer than until then; else not at all.
    pub tells_of_memory: bool,
    /// Whether it may begin late, when others load and unload libraries: nothing is unloaded while it looks at what is loaded.
    pub begins_late: bool,
}

/// Why nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// It was tried before, or is being tried.
    Again,
    /// What was asked for is to be recorded in another process, of which this is a child.
    OfAnother,
    /// Somebody else records in this process: see [`ways`].
    Elsewhere,
    /// The program brings a sanitizer, of this name, which replaces `malloc` itself.
    Sanitizer(&'static [u8]),
    /// The C library is none that can be followed: why.
    Library(&'static [u8]),
    /// There can be no ledger: why.
    NoLedger(&'static [u8]),
    /// There is no memory for the recorder, or the kernel cannot keep it from forked children.
    NoMemory,
}

impl NotStarted {
    /// Whether this process was to be recorded, and cannot be.
    fn is_failure(&self) -> bool {
        !matches!(self, NotStarted::Again | NotStarted::OfAnother | NotStarted::Elsewhere)
    }

    /// Tells the person, if there is something to tell: a line on standard error.
    pub fn complain(&self) {
        if self.is_failure() {
            let [first, second, third] = self.reason();
            complain(&[first, second, third, b": nothing is recorded"]);
        }
    }

    /// The same, where the person wants the program to run only if it is recorded: it ends here, before it has begun.
    pub fn complain_and_end(&self) {
        if self.is_failure() {
            let [first, second, third] = self.reason();
            complain(&[first, second, third, b": the program is not started, because --require was given"]);
            syscall::exit(session::NOT_RECORDED_STATUS);
        }
    }

    /// Why, in words: the pieces of one sentence.
    pub fn reason(&self) -> [&'static [u8]; 3] {
        let one = |why| [why, &b""[..], b""];
        match self {
            NotStarted::Again => one(b"recording has been tried before in this program"),
            NotStarted::OfAnother => one(b"another process is to be recorded, of which this is a child"),
            NotStarted::Elsewhere => one(b"this program is recorded already, by what it is linked with"),
            NotStarted::Sanitizer(name) => [b"this program has ", name, b" inside, which replaces malloc itself"],
            NotStarted::Library(why) | NotStarted::NoLedger(why) => one(why),
            NotStarted::NoMemory => one(b"no memory for the recorder"),
        }
    }
}

/// Starts recording, once, as `request` says.
///
/// # Errors
/// If this process will not record, or does already.
pub fn start(shared: &'static Shared, hooks: &Hooks, request: &Request) -> Result<(), NotStarted> {
    let mut starting = Starting::claim(&shared.phase).ok_or(NotStarted::Again)?;
    complaints::note_standard_error();
    let _signals = syscall::SignalsBlocked::new();
    let begun = set_up(shared, &mut starting, hooks, request);
    match begun {
        Ok(()) => ways::take(shared),
        Err(_) => ways::give_up(),
    }
    starting.end(if begun.is_ok() { Phase::On } else { Phase::Off });
    begun
}

/// Nothing will be recorded in this process, for a reason that the library of hooks knows.
pub fn stay_off(shared: &'static Shared, reason: &[u8]) {
    if let Some(starting) = Starting::claim(&shared.phase) {
        starting.end(Phase::Off);
        complain(&[reason, b": nothing is recorded"]);
    }
}

/// The same, where somebody else tells why.
pub fn stay_off_silently(shared: &'static Shared) {
    if let Some(starting) = Starting::claim(&shared.phase) {
        starting.end(Phase::Off);
    }
}

/// Why recording stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// The program goes on: it says so, or forbids itself all system calls. The ledger tells readers.
    Early,
    /// The program ends.
    AtEnd,
}

/// Nothing will be recorded any more.
pub fn stop(shared: &'static Shared, when: Stops) {
    if shared.phase.load(Ordering::Acquire) != Phase::On as u8 {
        return;
    }
    if !shared.switch.follows() {
        note_forked_child(shared);
    } else if shared.switch.is_owned() {
        // A child that shares our memory (`vfork`) has not spoken for us.
        shared.phase.store(Phase::Off as u8, Ordering::Release);
        if when == Stops::Early {
            shared.ledger().set_state(State::Stopped);
        }
        shared.switch.stop();
    }
}

/// Whether this process began to record: not one that was forked from it.
pub fn is_ours(shared: &Shared) -> bool {
    shared.switch.is_owned()
}

/// Removes the file of a ledger that is not written any more, if it is this process's own. Who has it open can read it still.
pub fn remove(shared: &Shared) {
    let is_written = shared.phase.load(Ordering::Acquire) == Phase::On as u8;
    if let Some(mapping) = shared.ledger().mapping().filter(|_| !is_written && is_ours(shared)) {
        mapping.remove_file();
    }
}

/// The program is about to forbid itself to read the processor's counter.
pub fn avoid_counter(shared: &Shared) {
    shared.clock.avoid_counter();
}

/// Whether nobody has called [`start`] yet.
#[inline(always)]
pub fn is_unstarted(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Relaxed) == Phase::Unstarted as u8
}

fn set_up(
    shared: &'static Shared,
    starting: &mut Starting,
    hooks: &Hooks,
    request: &Request,
) -> Result<(), NotStarted> {
    let session = request.session.unwrap_or_else(syscall::random);
    let is_child = request.pid.is_some_and(|pid| pid != u64::from(syscall::getpid()));
    let wanted = if is_child { family::wanted(request, session) } else { Wanted::Yes };
    if wanted != Wanted::Yes {
        // A child of the watched process: its ledger is not this one.
        if let Some(dir) = request.dir().filter(|_| wanted == Wanted::Refused) {
            let mut path = Text::<PATH_BYTES_MAX>::new();
            push_ledger_dir(&mut path, dir);
            // It may be another user's by now, and the first of them.
            if usable_dir(path.c_str()) {
                note_child(path, session);
            }
        }
        return Err(NotStarted::OfAnother);
    }
    let mut looked = Err(NotStarted::NoMemory);
    let mut look = || looked = look_around(shared, request, session, hooks.tells_of_memory);
    if hooks.begins_late {
        unloading::while_list_stands(&mut look)
    } else {
        look()
    }
    looked?;
    let keeps_accounts = request.accounts != Accounting::None && request.options.has(Options::THREAD);
    let mut settings = Settings {
        options: request.options,
        depth_limit: request.depth as usize,
        scripts: if request.options.has(Options::STACK) { request.scripts } else { Scripts::None },
        unwind: request.unwind,
        fallback: request.fallback as usize,
        check_stacks: request.check_stacks,
        reuse: request.reuse,
        sample: request.sample,
        sample_seed: sample_seed(request),
        is_plain: request.sample == 0 && !keeps_accounts,
        is_usual_but_depth: false,
        tells_of_memory: hooks.tells_of_memory,
        forked_children: ForkedChildren::of(request),
        is_forked: request.forked.is_some(),
        guard: Guarding {
            begins_late: request.begins_late || hooks.begins_late,
            // `run` reads the errors of the program itself as they come.
            has_reader: request.session.is_some() && !is_child && request.forked.is_none(),
            ..request.guard
        },
    };
    settings.is_usual_but_depth =
        settings.is_usual_with(request.history >= CHUNK_ENTRIES) && request.scripts == Scripts::None;
    shared.settings.change(starting, |early| *early = settings);
    shared.free_depth.start(starting, free_depth(request), settings.is_usual_but_depth);
    family::keep_wish(starting, request);
    if settings.scripts == Scripts::Python {
        shared.modules.python.want();
    }
    let start_unix_ns = shared.begin_time(request.forked.is_some());
    let id = ((u128::from(syscall::random()) << 64) | u128::from(syscall::random())).to_le_bytes();
    family::keep_own(starting, id, start_unix_ns);
    let opened = Opening { request, session, is_child, id, start_unix_ns };
    let image = match shared.ledger.change(starting, |ledger| opened.ledger(ledger)) {
        Ok(image) => image,
        Err(reason) => {
            note_unrecorded(request, session);
            return Err(NotStarted::NoLedger(reason));
        }
    };
    let ledger = shared.ledger();
    let recording = if request.paused { Recording::Paused } else { Recording::On };
    let (exe, cwd) = (family::executable(starting), process::directory::<1024>());
    let texts = [exe, cwd.bytes(), family::name(starting, exe, request.attached_ms.is_some())];
    shared.modules.enter_executable(ledger, exe);
    let begun = shared.history.start(request.history)
        && shared.sites.start(ledger)
        && shared.sums.start(ledger)
        && describe_heaps(ledger, hooks.heaps)
        && (request.guard.level < Level::Full || describe_heaps(ledger, &[b"guard"]))
        && describe_process(ledger, request, (session, image, texts), hooks)
        && (!keeps_accounts || shared.accounts.start(ledger))
        && shared.switch.start(recording, request.begins_late).is_ok();
    if !begun {
        ledger.set_state(State::Stopped);
        ledger.open_for_readers();
        return Err(NotStarted::NoMemory);
    }
    shared.sampling.start_if(ledger, &settings);
    anchored::place(ledger, &id, &cwd);
    shared.switch.owns();
    if let Some(limit) = syscall::limit(syscall::LIMIT_ADDRESS_BYTES) {
        room::fit(ledger, Some(limit), false);
    }
    ledger.set_state(State::Recording);
    ledger.open_for_readers();
    Ok(())
}

/// Never 0 where blocks are sampled, as which readers take a ledger of before there was one.
fn sample_seed(request: &Request) -> u64 {
    if request.sample == 0 { 0 } else { syscall::random() | 1 }
}

/// Looks at the modules of the process: whether it can be recorded, and by us.
#[inline(never)]
fn look_around(shared: &'static Shared, request: &Request, session: u64, is_told: bool) -> Result<(), NotStarted> {
    if request.forked.is_some() && shared.modules.start(is_told) {
        return Ok(()); // all of it holds that its parent found
    }
    // They come to life in the middle of the first `malloc`, and do not bear that somebody allocates or asks meanwhile. (`run`
    // tells by the file; this is for what was preloaded by hand, and for what a program becomes.)
    if let Some(sanitizer) = SANITIZERS.iter().find(|sanitizer| loader::is_defined(sanitizer.symbol.as_bytes())) {
        note_unrecorded(request, session);
        return Err(NotStarted::Sanitizer(sanitizer.name.as_bytes()));
    }
    if !shared.modules.start(is_told) {
        let why: &[u8] =
            if loader::is_glibc() { b"this glibc is older than 2.35" } else { b"this program is not built for glibc" };
        return Err(NotStarted::Library(why));
    }
    if !ways::claim(shared.modules.finder()) {
        return Err(NotStarted::Elsewhere);
    }
    // The loader notes where it was entered; what the kernel says is another stack under valgrind.
    let first_stack_end = loader::first_stack_end().unwrap_or_else(|| process::start_stack() as usize);
    shared.first_stack_end.store(first_stack_end, Ordering::Relaxed);
    stack::find_heap_end();
    Ok(())
}

fn describe_heaps(ledger: &Ledger, names: &[&[u8]]) -> bool {
    names.iter().all(|name| {
        let name_at = ledger.enter(SectionKind::Strings, name);
        name_at.and_then(|name_at| heaps::enter(ledger, name_at, name.len(), &(0..0), 0)).is_some()
    })
}

/// What is taken of the stacks of calls that end blocks. Who looks for an error wants to know all about the last one.
fn free_depth(request: &Request) -> FreeDepth {
    if request.guard.level == Level::Off { request.free_depth } else { FreeDepth::WHOLE }
}

#[inline(never)]
fn describe_process(
    ledger: &Ledger,
    request: &Request,
    (session, image, [exe, cwd, program]): (u64, u64, [&[u8]; 3]),
    hooks: &Hooks,
) -> bool {
    let pair = |key: &str, value: &[u8]| {
        ledger.enter(SectionKind::Process, key.as_bytes()).is_some()
            && ledger.enter(SectionKind::Process, b"=").is_some()
            && ledger.enter(SectionKind::Process, value).is_some()
            && ledger.enter(SectionKind::Process, b"\0").is_some()
    };
    let number = |key: &str, value: u64| pair(key, Text::<24>::new().push_number(value).bytes());
    let described = number(key::PID, u64::from(syscall::getpid()))
        && number(key::PPID, u64::from(syscall::getppid()))
        && number(key::START_TICKS, process::start_ticks())
        && family::pid_namespace().is_none_or(|namespace| number(key::PID_NS, namespace))
        && request.forked.as_ref().is_none_or(|forked| {
            let mut id = Text::<40>::new();
            for part in forked.ledger.chunks(8) {
                id.push_hex(part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
            }
            pair(key::PARENT_ID, id.bytes())
                && number(key::PARENT_PID, forked.pid.into())
                && number(key::FORKED_UNIX_NS, forked.unix_ns)
                && number(key::FORKS, family::forks().into())
        })
        && request.attached_ms.is_none_or(|ms| number(key::ATTACHED_MS, ms))
        && number(key::UID, u64::from(syscall::getuid()))
        && pair(key::SESSION, Text::<24>::new().push_hex(session).bytes())
        && number(key::IMAGE, image)
        && pair(key::EXE, exe)
        && pair(key::CWD, cwd)
        && hooks.ahead.is_none_or(|path| pair(key::AHEAD, if path.is_empty() { exe } else { path.to_bytes() }))
        && pair(key::NEXT, hooks.next.to_bytes())
        && pair(key::CXX, hooks.cxx.to_bytes())
        && pair(key::UNWIND, request.unwind.name())
        && pair(key::FREE_DEPTH, depth_in_force::text(free_depth(request)).bytes())
        && (request.guard.level == Level::Off
            || pair(key::GUARD, request.guard.value().bytes()) && number(key::GUARD_AT, described::address()))
        && number(key::HISTORY, request.history)
        && number(key::MAX_LEDGER, request.max_ledger.unwrap_or(0))
        && pair(key::VERSION, env!("CARGO_PKG_VERSION").as_bytes())
        && request.labels.bytes().split(|byte| *byte == b'\n').filter(|label| !label.is_empty()).all(|label| {
            ledger.enter(SectionKind::Process, key::LABEL_PREFIX.as_bytes()).is_some()
                && ledger.enter(SectionKind::Process, label).is_some()
                && ledger.enter(SectionKind::Process, b"\0").is_some()
        });
    // Arguments come in pieces and may be very many: as far as there is room.
    let mut in_argument = false;
    let mut room = true;
    let each_argument = if request.forked.is_some() { process::arguments_of_forked } else { process::arguments };
    each_argument(&mut |piece| {
        for part in piece.split_inclusive(|byte| *byte == 0) {
            if !in_argument {
                room &= ledger.enter(SectionKind::Process, key::ARG.as_bytes()).is_some()
                    && ledger.enter(SectionKind::Process, b"=").is_some();
            }
            room &= ledger.enter(SectionKind::Process, part).is_some();
            in_argument = !part.ends_with(b"\0");
        }
        room
    });
    // Else whoever reads of it would be advised to tell it.
    let told = program.starts_with(b"python").then(|| process::environment::<32>(b"PYTHONMALLOC")).flatten();
    described && pair(key::PROGRAM, program) && told.is_none_or(|told| pair(key::PYTHONMALLOC, told.bytes()))
}

/// Leaves a mark that a child process of the watched one was not watched: a line in a file.
fn note_child(mut path: Text<PATH_BYTES_MAX>, session: u64) {
    path.push(b"/").push_hex(session).push(ending::CHILDREN.as_bytes());
    // A child that forks, allocates and then becomes another program comes here twice: its number tells.
    let mut line = Text::<24>::new();
    line.push_number(u64::from(syscall::getpid())).push(b"\n");
    let flags =
        open_flag::WRITE | open_flag::CREATE | open_flag::APPEND | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
    if let Ok(fd) = syscall::open(path.c_str(), flags, 0o600) {
        if syscall::identify(fd).is_ok_and(|file| !complaints::near_file_limit(file.bytes)) {
            let _ = syscall::write(fd, line.bytes());
        }
        syscall::close(fd);
    }
}

/// Leaves the program's path for `run`, which would otherwise take an earlier program of this process
/// for the whole story. A symbolic link, because nothing can be written where file sizes are limited to 0.
#[inline(never)]
fn note_unrecorded(request: &Request, session: u64) {
    if let Some(dir) = request.dir() {
        let mut path = Text::<PATH_BYTES_MAX>::new();
        push_ledger_dir(&mut path, dir);
        path.push(b"/").push_hex(session).push(ending::UNRECORDED.as_bytes());
        syscall::unlink(path.c_str());
        let _ = syscall::symbolic_link(process::executable::<1024>().c_str(), path.c_str());
    }
}

/// A forked child finds out that it is one: it never records, and says so once.
#[cold]
pub fn note_forked_child(shared: &'static Shared) {
    apart::run(&mut || note_forked_child_here(shared));
}

fn note_forked_child_here(shared: &'static Shared) {
    if family::is_to_begin(shared) {
        return; // with its next call
    }
    let claimed = shared.phase.compare_exchange(Phase::On as u8, Phase::Off as u8, Ordering::AcqRel, Ordering::Relaxed);
    let (Ok(_), Some(mapping)) = (claimed, shared.ledger().mapping()) else { return };
    if shared.settings().forked_children == ForkedChildren::PassBy {
        return;
    }
    let live = mapping.path().bytes();
    let Some(slash) = live.iter().rposition(|byte| *byte == b'/') else { return };
    let (dir, name) = live.split_at(slash);
    let session = name.get(1..17).and_then(heapledger_linux::text::hex);
    let mut path = Text::new();
    path.push(dir);
    if let Some(session) = session {
        note_child(path, session);
    }
}

/// Whether this option is recorded, for the library of hooks: what is not needed need not be asked.
pub fn records(shared: &Shared, option: u32) -> bool {
    shared.settings().options.has(option)
}

const _: () = assert!(Options::ALL.0 < 64);
