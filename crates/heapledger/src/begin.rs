//! Beginning: at the first call of all, or when the program says so.

use crate::Error;
use crate::guard;
use crate::options::{AtExit, Begins, GuardLevel, Options};
use crate::spacing;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};
use heapledger_format::session::DEPTH_LIMIT_MAX;
use heapledger_format::{FreeDepth, record};
use heapledger_linux::unloading;
use heapledger_process::guarded::Level;
use heapledger_process::options::{self as asked, Accounting, Request};
use heapledger_process::shared::SHARED;
use heapledger_process::start::{self, Hooks, NotStarted};
use heapledger_process::{ending, hooks, life, ways};
use heapledger_watch::counting;
use heapledger_watch::state::{self, FORWARDED, OFF, ON};

/// What the first call of all found out.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// What [`FOUND`] says: nothing, that recording begins when it is told to, or has begun.
const UNKNOWN: u8 = 0;
const WAITS: u8 = 1;
const BEGUN: u8 = 2;
/// And then, why it has not.
const ERRORS: [Error; 7] = [
    Error::Begun,
    Error::OfAnother,
    Error::Elsewhere,
    Error::Sanitizer,
    Error::Library,
    Error::NoLedger,
    Error::NoMemory,
];
const FIRST_ERROR: u8 = 3;

/// Whether there is a ledger that nobody else takes care of.
fn is_own_ledger() -> bool {
    FOUND.load(Ordering::Acquire) == BEGUN && start::is_ours(&SHARED) && ending::is_by_others() == Some(false)
}

/// Stops for good.
pub(crate) fn stop() {
    guard::stop();
    start::stop(&SHARED, start::Stops::Early);
    look();
}

/// Stops, and removes the ledger, unless somebody else takes care of it.
pub(crate) fn discard() {
    stop();
    if is_own_ledger() {
        ending::discard(&SHARED);
    }
}

/// What was asked for, by the allocator that was called first.
struct Asked {
    options: UnsafeCell<Options>,
    state: AtomicU8,
}

/// [`Asked::state`]: one thread writes the options.
const WRITING: u8 = 1;
/// They are there, for good.
const THERE: u8 = 2;

// SAFETY: one thread writes before it says so (release), others read after they have seen that (acquire).
unsafe impl Sync for Asked {}

static ASKED: Asked = Asked { options: UnsafeCell::new(Options::new()), state: AtomicU8::new(0) };

impl Asked {
    /// True for the first who asks.
    fn set(&self, options: &Options) -> bool {
        if self.state.compare_exchange(0, WRITING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // SAFETY: nobody else writes, and nobody reads before what follows.
        unsafe { *self.options.get() = *options };
        self.state.store(THERE, Ordering::Release);
        true
    }

    fn get(&self) -> Option<Options> {
        // SAFETY: nobody writes any more.
        (self.state.load(Ordering::Acquire) == THERE).then(|| unsafe { *self.options.get() })
    }
}

/// What becomes of the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FirstCall {
    PassedOn = 0,
    Recorded = 1,
    Watched = 2,
}

/// The first call of all, and calls that come at the same time.
pub(crate) extern "C" fn first_call(options: &Options) -> FirstCall {
    if !ASKED.set(options) {
        guard::note_passed();
        return FirstCall::PassedOn;
    }
    if options.counts {
        counting::count_all();
    }
    let _ = begin(options, Told::ByFirstCall);
    match state::flags() {
        state if state & state::WATCHED != 0 => FirstCall::Watched,
        ON => FirstCall::Recorded,
        _ => FirstCall::PassedOn,
    }
}

/// The program says so.
pub(crate) fn now() -> Result<(), Error> {
    let Some(options) = ASKED.get() else { return Err(Error::NoAllocator) };
    match FOUND.compare_exchange(WAITS, UNKNOWN, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => begin(&options, Told::ByProgram),
        Err(BEGUN) if !hooks::follows(&SHARED) => Err(Error::Ended),
        Err(BEGUN | UNKNOWN) => Err(Error::Begun),
        Err(found) => Err(ERRORS.get(usize::from(found.wrapping_sub(FIRST_ERROR))).copied().unwrap_or(Error::Begun)),
    }
}

/// Whether `heapledger run` has brought a recorder, or another library: then this one never begins.
#[cold]
#[inline(never)]
fn another_records() -> bool {
    let mut found = false;
    unloading::while_list_stands(&mut || found = ways::find_another());
    found
}

/// As [`FOUND`] has it.
fn found_error(error: Error) -> u8 {
    let index = ERRORS.iter().position(|known| *known == error).unwrap_or(0);
    FIRST_ERROR.wrapping_add(index as u8)
}

/// Who says that recording begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nobody: the allocator is called for the first time.
    ByFirstCall,
    ByProgram,
}

/// Not compiled into its callers: what is asked of the recorder takes more than a kilobyte.
#[cold]
#[inline(never)]
fn begin(options: &Options, told: Told) -> Result<(), Error> {
    let is_late = told == Told::ByProgram;
    let mut request = Request { begins_late: is_late, ..request(options) }.under_environment();
    if !is_late && request.begins == asked::Begins::Later {
        wait(&request);
        return Ok(());
    }
    request.guard = guard::without_closed_pages(request.guard);
    let heaps: &[&[u8]] = &[b"Rust's global allocator"];
    let hooks = Hooks { next: c"", cxx: c"", ahead: None, heaps, tells_of_memory: false, begins_late: true };
    spacing::look();
    let begun = start::start(&SHARED, &hooks, &request).map_err(error);
    let found = match &begun {
        Ok(()) => BEGUN,
        Err(error) => found_error(*error),
    };
    // Another recorder has read the variable, too; and one that waited was heard when it began to wait.
    if !is_late && begun != Err(Error::Elsewhere) {
        life::complain_of_variable(&request);
    }
    if begun.is_ok() {
        ending::note(&mut request, asked::AtExit::Finish);
    }
    FOUND.store(found, Ordering::Release);
    if begun.is_ok() {
        guard::begin(is_late);
    }
    state::set_base(match begun {
        Ok(()) => ON,
        // It may not see the blocks of the allocator inside.
        Err(Error::Elsewhere) => FORWARDED,
        Err(_) => OFF,
    });
    begun
}

/// The program will say when.
fn wait(request: &Request) {
    if another_records() {
        FOUND.store(found_error(Error::Elsewhere), Ordering::Release);
        state::set_base(FORWARDED);
        return;
    }
    life::complain_of_variable(request);
    FOUND.store(WAITS, Ordering::Release);
    state::set_base(OFF);
}

fn error(why: NotStarted) -> Error {
    match why {
        NotStarted::Again => Error::Begun,
        NotStarted::OfAnother => Error::OfAnother,
        NotStarted::Elsewhere => Error::Elsewhere,
        NotStarted::Sanitizer(_) => Error::Sanitizer,
        NotStarted::Library(_) => Error::Library,
        NotStarted::NoLedger(_) => Error::NoLedger,
        NotStarted::NoMemory => Error::NoMemory,
    }
}

/// So many frames, as [`Options::free_depth`] has them.
pub(crate) fn free_depth(frames: u64) -> FreeDepth {
    match frames {
        u64::MAX => FreeDepth::WHOLE,
        frames => FreeDepth::of(frames.min(DEPTH_LIMIT_MAX) as u32),
    }
}

fn request(options: &Options) -> Request {
    let mut request = Request {
        max_ledger: Some(options.ledger_bytes_max).filter(|bytes| *bytes != 0),
        history: Request::history_of(options.history),
        depth: Request::depth_of(options.depth),
        free_depth: free_depth(options.free_depth),
        sample: options.sample_bytes,
        accounts: Accounting::of(options.accounts),
        paused: options.begins == Begins::Paused,
        begins: match options.begins {
            Begins::WhenTold => asked::Begins::Later,
            Begins::AtOnce | Begins::Paused => asked::Begins::Now,
        },
        at_exit: Some(match options.at_exit {
            AtExit::Finish => asked::AtExit::Finish,
            AtExit::Keep => asked::AtExit::Keep,
            AtExit::Remove => asked::AtExit::Remove,
        }),
        in_memory: options.in_memory,
        // Nobody finishes the ledger who would want to know.
        notes_children: false,
        ..Request::default()
    };
    request.guard.level = match options.guard {
        GuardLevel::Off => Level::Off,
        GuardLevel::Light => Level::Light,
        GuardLevel::Full => Level::Full,
    };
    request.guard.quarantine_bytes = options.quarantine_bytes;
    request.dir.push(options.directory.as_bytes());
    request.output.push(options.output.as_bytes());
    // Nobody tells.
    request.options.0 &= !record::Options::ACTUAL_SIZE;
    request
}

/// If blocks are no longer followed, for good, calls are passed on from now on.
pub(crate) fn look() {
    if state::base() == ON && !hooks::follows(&SHARED) {
        state::set_base(OFF);
    }
}

/// The program ends.
fn end() {
    guard::at_exit();
    // Which threads are still there is looked at: nobody tells of their end.
    hooks::program_exits(&SHARED);
    if is_own_ledger() {
        ending::at_exit(&SHARED);
        look();
    }
}

/// A library with this crate inside is never unloaded: of a recorder threads keep what lies in it, and of a library whose threads
/// have words of a fixed place the loader loses that place unless libraries go in the order in which they came. Here it holds its
/// lock anyway.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let _ = unloading::stay_loaded();
    }
    at_load
};

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    #[unsafe(link_section = "heapledger_entry")]
    extern "C" fn at_exit() {
        end();
        // Not a last call: the frame stays as long as the recorder is at work.
        core::hint::black_box(());
    }
    at_exit
};
