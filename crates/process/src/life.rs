//! The life of a recording that the program itself decides about: when it begins, and what becomes of its ledger.
//!
//! What it asks for it says in the words of the variable `HEAPLEDGER`: in a text that the library of hooks finds ([`Host::words`]), and
//! when it starts. What the variable says goes before both. Where `run` takes care of the ledger, it decides alone.

#![forbid(unsafe_code)]

use crate::guarded::GUARD;
use crate::once::Noted;
use crate::options::{AtExit, Begins, Request};
use crate::shared::{Phase, Shared};
use crate::start::{self, Hooks, NotStarted, Stops};
use crate::{ending, hooks};
use core::sync::atomic::{AtomicU8, Ordering};
use heapledger_format::session;
use heapledger_linux::text::Text;
use heapledger_linux::{apart, syscall};

/// Begins, with what the library of hooks knows.
pub type Begin<'b> = dyn FnMut(&Hooks) + 'b;

/// The library of hooks.
pub struct Host {
    /// What its threads share.
    pub shared: &'static Shared,
    /// Hands over what it knows that the ledger should hold.
    pub hooks: fn(&mut Begin),
    /// What the program has written down for it, and the name of that.
    pub words: fn() -> (&'static [u8], &'static [u8]),
    /// What becomes of a ledger of which nobody says it.
    pub at_exit: fn() -> AtExit,
    /// Whether it sees every call of the program's. Else blocks are freed that it has not seen.
    pub sees_all: bool,
}

/// Why nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// Nothing is recorded in this process, or not by this recorder.
    Off,
    /// It is so already, or was and is over; or somebody else takes care of the ledger.
    NotSo,
    /// The words cannot be understood. That was told on standard error.
    Words,
    /// This program cannot be recorded. Why was told on standard error.
    Impossible,
}

/// Who was called first.
static HOST: Noted<Host> = Noted::new();

/// Where the program's recording is.
static STAGE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
/// The program will say when.
const WAITS: u8 = 1;
const BEGUN: u8 = 2;
const IMPOSSIBLE: u8 = 3;
/// There is another recorder in the process, or its ledger is another process's.
const ELSEWHERE: u8 = 4;

/// Whether nothing has begun, because the program will say when.
pub fn waits() -> bool {
    STAGE.load(Ordering::Relaxed) == WAITS
}

/// Whether nothing is recorded by this recorder, and never will be.
pub fn is_over(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Acquire) == Phase::Off as u8
}

/// What becomes of a process of which there can be no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// It runs as without us.
    GoesOn,
    /// It ends before it has begun.
    Ends,
}

/// The first call of all: begins, unless the program will say when.
#[cold]
pub fn first_call(host: &'static Host) {
    HOST.set(host);
    if !waits() {
        apart::with_room(ROOM_BYTES, &mut || first_call_here(host));
    }
}

/// What beginning may take of a stack: what is asked for, and paths, take kilobytes, and who calls may have a small one.
pub(crate) const ROOM_BYTES: usize = 128 << 10;

#[inline(never)]
fn first_call_here(host: &'static Host) {
    let mut asked = Asked::default();
    ask(host, b"", &mut asked);
    if asked.request.begins == Begins::Later {
        if STAGE.compare_exchange(UNKNOWN, WAITS, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            asked.complain();
        }
        return;
    }
    if let Err(why) = begin(host, &mut asked) {
        // Other processes than the one that was asked for do what they have to do.
        let is_it = asked.request.pid == Some(u64::from(syscall::getpid()));
        match asked.request.unrecorded {
            Unrecorded::Ends if is_it => why.complain_and_end(),
            _ => why.complain(),
        }
    }
}

/// Somebody has opened the library in this program, which ran without it, and asks for what `words` say; nobody else is asked.
///
/// # Errors
/// If this process cannot be recorded, or is already.
#[cold]
pub fn attached(host: &'static Host, words: &[u8]) -> Result<(), NotStarted> {
    HOST.set(host);
    let mut begun = Err(NotStarted::Again);
    apart::with_room(ROOM_BYTES, &mut || {
        let mut asked = Asked::default();
        asked.request.set_all(words);
        // What was allocated before is freed now.
        asked.request.begins_late = true;
        begun = begin(host, &mut asked);
    });
    begun
}

/// What the library of hooks knows, for a forked child that begins.
pub(crate) fn with_hooks(begin: &mut Begin) {
    if let Some(host) = HOST.get() {
        (host.hooks)(begin);
    }
}

/// Nothing will be recorded in this process, for a reason that the library of hooks knows.
#[cold]
pub fn stay_off(host: &'static Host, reason: &[u8]) {
    HOST.set(host);
    STAGE.store(IMPOSSIBLE, Ordering::Release);
    start::stay_off(host.shared, reason);
}

/// The same, and whoever asked for it has been told why.
#[cold]
pub fn stay_off_silently(host: &'static Host) {
    HOST.set(host);
    STAGE.store(IMPOSSIBLE, Ordering::Release);
    start::stay_off_silently(host.shared);
}

/// The program says so, and what is to be recorded.
///
/// # Errors
/// If that cannot be, or is so already.
pub fn start(words: &[u8]) -> Result<(), Unchanged> {
    let Some(host) = HOST.get() else { return Err(Unchanged::Off) };
    if let IMPOSSIBLE = STAGE.load(Ordering::Acquire) {
        return Err(Unchanged::Impossible);
    }
    if !start::is_unstarted(host.shared) {
        return Err(Unchanged::NotSo);
    }
    let mut begun = Err(Unchanged::NotSo);
    apart::with_room(ROOM_BYTES, &mut || begun = start_here(host, words));
    begun
}

#[inline(never)]
fn start_here(host: &'static Host, words: &[u8]) -> Result<(), Unchanged> {
    let mut asked = Asked::default();
    ask(host, words, &mut asked);
    if !asked.not_said.bytes().is_empty() {
        complain_of(b"heapledger_start", asked.not_said.bytes());
        return Err(Unchanged::Words);
    }
    begin(host, &mut asked).map_err(|why| {
        why.complain();
        match why {
            NotStarted::Again | NotStarted::OfAnother | NotStarted::Elsewhere => Unchanged::NotSo,
            NotStarted::Sanitizer(_) | NotStarted::Library(_) | NotStarted::NoLedger(_) | NotStarted::NoMemory => {
                Unchanged::Impossible
            }
        }
    })
}

/// Nothing is recorded any more, for good. The ledger ends here.
///
/// # Errors
/// If nothing is recorded, or somebody else takes care of the ledger.
pub fn stop() -> Result<(), Unchanged> {
    let host = of_own_ledger()?;
    if is_over(host.shared) {
        return Err(Unchanged::Off);
    }
    start::stop(host.shared, Stops::Early);
    Ok(())
}

/// The same, and the ledger is removed, whether it has stopped before or not.
///
/// # Errors
/// As [`stop`].
pub fn discard() -> Result<(), Unchanged> {
    let host = of_own_ledger()?;
    start::stop(host.shared, Stops::Early);
    if ending::discard(host.shared) { Ok(()) } else { Err(Unchanged::Off) }
}

/// Whose ledger the program decides about.
fn of_own_ledger() -> Result<&'static Host, Unchanged> {
    if STAGE.load(Ordering::Acquire) == ELSEWHERE {
        return Err(Unchanged::NotSo);
    }
    let is_by_others = ending::is_by_others().ok_or(Unchanged::Off)?;
    let host = HOST.get().filter(|host| start::is_ours(host.shared)).ok_or(Unchanged::Off)?;
    if is_by_others { Err(Unchanged::NotSo) } else { Ok(host) }
}

/// The program ends.
pub fn end() {
    let Some(host) = HOST.get() else { return };
    // Which threads are still there is looked at: nobody tells of their end.
    hooks::program_exits(host.shared);
    // What makes no system call is asked first: a program may have forbidden itself all that it does not need.
    if GUARD.makes_calls() && ending::is_asked_at_exit() && of_own_ledger().is_ok() {
        ending::at_exit(host.shared);
    }
}

/// What is asked of the recorder, and what of that could not be understood: where it was written down, and where it was said.
#[derive(Default)]
struct Asked {
    request: Request,
    not_written: Text<64>,
    not_said: Text<64>,
    written_in: &'static [u8],
}

impl Asked {
    fn complain(&self) {
        complain_of(self.written_in, self.not_written.bytes());
        complain_of_variable(&self.request);
    }
}

/// Names on standard error what of the variable could not be understood.
pub fn complain_of_variable(request: &Request) {
    complain_of(session::VARIABLE.as_bytes(), request.unknown.bytes());
}

fn complain_of(source: &[u8], item: &[u8]) {
    if !item.is_empty() {
        start::complain(&[source, b": not understood: ", item]);
    }
}

/// The variable goes before what the program says, and that before what it has written down.
#[inline(never)]
fn ask(host: &Host, said: &[u8], asked: &mut Asked) {
    let (written, written_in) = (host.words)();
    asked.written_in = written_in;
    asked.request.set_all(written);
    asked.not_written = core::mem::take(&mut asked.request.unknown);
    asked.request.set_all(said);
    asked.not_said = core::mem::take(&mut asked.request.unknown);
    asked.request.set_environment();
    if asked.request.session.is_some() {
        // Whoever has started the program to record it decides about all of it.
        begin_anew(asked);
        asked.request.set_environment();
        asked.request.begins = Begins::Now;
    }
}

/// Not compiled into its caller: what is new is made beside what was there.
#[inline(never)]
fn begin_anew(asked: &mut Asked) {
    *asked = Asked { written_in: asked.written_in, ..Asked::default() };
}

#[cold]
#[inline(never)]
fn begin(host: &'static Host, asked: &mut Asked) -> Result<(), NotStarted> {
    let at_exit = asked.request.at_exit.unwrap_or_else(host.at_exit);
    // A list of children is for who finishes the ledger.
    asked.request.notes_children &= asked.request.session.is_some() || at_exit == AtExit::Keep;
    // What was allocated while it waited is freed now; and what is wrong with the words was told then.
    let waited = waits();
    asked.request.begins_late |= waited || !host.sees_all;
    let mut begun = Err(NotStarted::Again);
    (host.hooks)(&mut |hooks| begun = start::start(host.shared, hooks, &asked.request));
    let stage = match &begun {
        Err(NotStarted::Again) => return begun,
        Ok(()) => BEGUN,
        Err(NotStarted::OfAnother | NotStarted::Elsewhere) => ELSEWHERE,
        Err(_) => IMPOSSIBLE,
    };
    if !waited {
        asked.complain();
    }
    if begun.is_ok() {
        ending::note(&mut asked.request, at_exit);
    }
    STAGE.store(stage, Ordering::Release);
    begun
}
