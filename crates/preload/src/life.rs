//! How recording begins in a program, and what that program says about it itself.

use crate::SHARED;
use crate::called;
use crate::hooked::Hook;
use crate::next;
use core::arch::asm;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};
use heapledger_format::session::LINKED_LIBRARY;
use heapledger_linux::loader;
#[cfg(not(feature = "wrapped"))]
use heapledger_process::exit_status;
use heapledger_process::life::{self, Begin, Host};
use heapledger_process::options::AtExit;
use heapledger_process::start::Hooks;

const GLIBC_HEAPS: &[&[u8]] = &[b"brk heap", b"arenas", b"large mappings"];

static HOST: Host = Host { shared: &SHARED, hooks, words, at_exit, sees_all: !IS_WRAPPED };

/// What other object files and libraries allocate and free goes past; so does what they map and unload.
const IS_WRAPPED: bool = cfg!(feature = "wrapped");

/// The library stands in front of the real functions, whoever calls them.
#[cfg(not(feature = "wrapped"))]
static SEES_ALL: heapledger_process::ways::EntryOf = |_| Some(usize::MAX);

/// Constructors run. The C library of a static program allocates before that, when it cannot be asked yet what there is.
static IS_LOADED: AtomicBool = AtomicBool::new(false);

/// The program, or the library that we are in, is loaded.
pub(crate) fn loaded() {
    IS_LOADED.store(true, Ordering::Release);
    crate::calls::ensure_started();
    #[cfg(not(feature = "wrapped"))]
    watch_end();
}

/// Has the C library say with what status the program comes to its end by `exit`, or by coming back from `main`: last of all that it does then,
/// since whoever asked first is told last.
#[cfg(not(feature = "wrapped"))]
fn watch_end() {
    extern "C" fn ends(status: core::ffi::c_int, _: usize) {
        exit_status::note(&SHARED, status);
    }
    if exit_status::is_wanted(&SHARED)
        && let Some(on_exit) = loader::modules_after_us().find_map(|module| module.symbol(b"on_exit"))
    {
        crate::real::gives_of_two(on_exit.address, ends as *const () as usize, 0);
    }
}

/// The first call of all, and those that come while the program has not said when.
#[cold]
pub(crate) fn begin() {
    if life::waits() || IS_WRAPPED && !IS_LOADED.load(Ordering::Acquire) {
        return;
    }
    // Finds the next allocator first: whoever passes through while recording starts needs it.
    next::next(Hook::Malloc as usize);
    #[cfg(not(feature = "wrapped"))]
    heapledger_process::ways::offer_entries(&SEES_ALL);
    #[cfg(feature = "wrapped")]
    next::look();
    #[cfg(not(feature = "wrapped"))]
    if next::is_last() && crate::attached::begin(&HOST) {
        return;
    }
    if next::is_last() {
        life::stay_off(
            &HOST,
            b"the library was not preloaded (dlopen, or linked last), so the program's calls go past it",
        );
        return;
    }
    life::first_call(&HOST);
    #[cfg(feature = "oracle")]
    if heapledger_process::hooks::is_on(&SHARED) {
        crate::oracle::start();
    }
}

fn is_attached() -> bool {
    #[cfg(feature = "wrapped")]
    return false;
    #[cfg(not(feature = "wrapped"))]
    next::is_attached()
}

fn hooks(begin: &mut Begin) {
    let [name, cxx, ahead] = called::paths();
    let name = name.unwrap_or(c"");
    let base = name.to_bytes().rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
    let other = [base.unwrap_or(b"heap")];
    let heaps = if next::is_glibc() { GLIBC_HEAPS } else { &other[..] };
    let begins_late = IS_WRAPPED || life::waits() || is_attached();
    begin(&Hooks { next: name, cxx: cxx.unwrap_or(c""), ahead, heaps, tells_of_memory: !IS_WRAPPED, begins_late });
    #[cfg(not(feature = "wrapped"))]
    {
        crate::guard::begin();
        // Whether blocks are sampled or guarded is known now.
        next::look_who_watches();
    }
    #[cfg(feature = "wrapped")]
    {
        heapledger_process::code::go_past_us(&SHARED, next::others());
        next::lead_elsewhere();
        next::look_who_watches();
    }
}

/// The text `heapledger_options` of the program, if it has one.
fn words() -> (&'static [u8], &'static [u8]) {
    let first: *const c_char;
    // SAFETY: loads an address from our own table; 0 if nobody defines it.
    unsafe {
        asm!(
            ".weak heapledger_options",
            "mov {}, qword ptr [rip + heapledger_options@GOTPCREL]",
            out(reg) first, options(nostack, preserves_flags, readonly)
        );
    }
    // SAFETY: a text of the program's, which is constant and ends with a zero byte.
    let words = if first.is_null() { c"" } else { unsafe { CStr::from_ptr(first) } };
    (words.to_bytes(), b"heapledger_options")
}

/// What becomes of a ledger of which nobody says it: a library that was preloaded by hand is in all kinds of programs, which do not
/// expect files where they work.
fn at_exit() -> AtExit {
    if IS_WRAPPED || loader::is_needed(LINKED_LIBRARY.as_bytes()) { AtExit::Finish } else { AtExit::Keep }
}
