//! Several ways into one process: a library that was preloaded, one that the program is linked with, another copy of either.
//!
//! There is one recorder in a process: the word of a thread leads to the state of one, and a block that two follow would be in
//! two ledgers. Each copy of this code has a note in its module (`.note.heapledger`), which leads to its [`Way`]. Whoever
//! starts looks at the notes of all modules that the loader lists; no symbol has to be exported for that, so an executable is
//! found as well. Who comes second steps back, passes its calls on, and can speak to the recorder that is there: [`recorder`].
//!
//! Two that start at the same moment in two threads both say so before they look: the one whose module is earlier in the
//! loader's list goes on. (Should it fail after that, nobody records.) In a forked child the way of the parent's recorder is
//! still marked, but its [switch](crate::switch) is off: it is nobody's.

use crate::once::Noted;
use crate::shared::Shared;
use crate::switch::Recording;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_linux::loader::{self, CodeFinder, Module};

/// A way into the process. The order of what stands here never changes, and a later version only adds to its end: it is
/// read by other copies of this code, of other versions.
#[repr(C)]
pub struct Way {
    version: u32,
    bytes: u32,
    claim: AtomicU32,
    recording: extern "C" fn() -> u32,
    pause: extern "C" fn() -> u32,
    resume: extern "C" fn() -> u32,
}

const VERSION: u32 = 1;

/// [`Way::claim`]: nobody came in here, or who did has stepped back.
const NONE: u32 = 0;
/// Who came in here is about to start.
const STARTS: u32 = 1;
/// Who came in here records.
const RECORDS: u32 = 2;

/// What is shared by the threads that came in here, once it has started.
static SHARED: Noted<Shared> = Noted::new();
/// The way of who recorded before us.
static ANOTHER: Noted<Way> = Noted::new();

static OWN: Way = Way {
    version: VERSION,
    bytes: size_of::<Way>() as u32,
    claim: AtomicU32::new(NONE),
    recording: own_recording,
    pause: own_pause,
    resume: own_resume,
};

const NOTE_NAME: &[u8] = b"heapledger\0";
const NOTE_KIND: u32 = 0x484C;

// The distance from where it stands to the way.
core::arch::global_asm!(
    ".pushsection .note.heapledger,\"a\",@note",
    ".p2align 2",
    ".long 11, 8, 0x484C",
    ".asciz \"heapledger\"",
    ".p2align 2",
    ".quad {way} - .",
    ".popsection",
    way = sym OWN,
);

extern "C" fn own_recording() -> u32 {
    SHARED.get().map_or(Recording::Off, |shared| shared.switch.get()) as u32
}

extern "C" fn own_pause() -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| shared.switch.pause()))
}

extern "C" fn own_resume() -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| shared.switch.resume()))
}

impl Way {
    /// What is recorded through it at this moment.
    pub fn recording(&self) -> Recording {
        Recording::of((self.recording)())
    }

    /// From on to paused. False if it was not on.
    pub fn pause(&self) -> bool {
        (self.pause)() != 0
    }

    /// From paused to on. False if it was not paused.
    pub fn resume(&self) -> bool {
        (self.resume)() != 0
    }
}

/// The way of a module, if it is one.
fn of_module(finder: &CodeFinder, module: &Module) -> Option<&'static Way> {
    let module = finder.of(module)?;
    let distance = module.note(NOTE_NAME, NOTE_KIND)?;
    let value = i64::from_ne_bytes(*distance.first_chunk()?);
    let address = (distance.as_ptr() as usize).wrapping_add_signed(value as isize);
    // SAFETY: the note of a module that is loaded leads to its way. (Who records is never unloaded.)
    let way = unsafe { &*(address as *const Way) };
    (way.version >= VERSION && way.bytes as usize >= size_of::<Way>()).then_some(way)
}

/// We are about to start. False if somebody else records in this process, or is a moment ahead of us.
pub(crate) fn claim(finder: &CodeFinder) -> bool {
    OWN.claim.store(STARTS, Ordering::SeqCst);
    let mut is_before_us = true;
    for module in loader::modules() {
        if module.is_us() {
            is_before_us = false;
            continue;
        }
        let Some(way) = of_module(finder, &module) else { continue };
        let is_ahead = match way.claim.load(Ordering::SeqCst) {
            RECORDS => way.recording() != Recording::Off,
            STARTS => is_before_us,
            _ => false,
        };
        if is_ahead {
            give_up();
            ANOTHER.set(way);
            return false;
        }
    }
    true
}

/// We have not started after all.
pub(crate) fn give_up() {
    OWN.claim.store(NONE, Ordering::SeqCst);
}

/// We record from now on.
pub(crate) fn take(shared: &'static Shared) {
    SHARED.set(shared);
    OWN.claim.store(RECORDS, Ordering::SeqCst);
}

/// Who records in this process, as far as we know: we ourselves, or whoever was there before us.
pub fn recorder() -> Option<&'static Way> {
    if OWN.claim.load(Ordering::Acquire) == RECORDS {
        return Some(&OWN);
    }
    ANOTHER.get()
}
