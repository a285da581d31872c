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

use crate::depot::{self, NotKept};
use crate::finish;
use crate::labels;
use crate::look;
use crate::marks::{self, NewMark, NotTold};
use crate::once::Noted;
use crate::shared::Shared;
use crate::switch::Recording;
use crate::windows::{self, NewWindow, WindowSums};
use core::ffi::CStr;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_format::mark::{MarkKind, WindowMode};
use heapledger_format::{LabelId, Site};
use heapledger_linux::loader::{self, CodeFinder, Module};
use heapledger_linux::syscall::Errno;

/// A way into the process: what each has. The order of what stands here never changes, and a later version only adds to its
/// end: it is read by other copies of this code, of other versions.
#[repr(C)]
pub struct Way {
    version: u32,
    bytes: u32,
    claim: AtomicU32,
    recording: extern "C" fn() -> u32,
    pause: extern "C" fn() -> u32,
    resume: extern "C" fn() -> u32,
}

/// What later versions have added to the end, as this one knows it. A function that takes text takes where it begins and how
/// many bytes it has.
#[repr(C)]
struct FullWay {
    way: Way,
    /// To a path, of so many bytes with the zero at its end. Returns 0, or the number of an error.
    snapshot: SnapshotFn,
    /// Name, kind, what it is about; 1: of the thread.
    mark: MarkFn,
    /// The label around it, key, value.
    label: LabelFn,
    put_in_force: extern "C" fn(u32) -> i64,
    in_force: extern "C" fn() -> u32,
    /// Of so many frames. Returns the number of the stack, or one below 0.
    put_stack: PutStackFn,
    /// Of a number, to so many places. Returns how many frames there are, or a number below 0.
    get_stack: GetStackFn,
    /// Name, mode; 1: of the thread.
    open_window: WindowFn,
    /// Its row plus 1, and the kind of mark that it becomes.
    change_window: extern "C" fn(u32, u32) -> i64,
    /// Its row plus 1, where its figures go, and how many there is room for.
    window_figures: WindowFiguresFn,
    /// Nanoseconds since the ledger began; all bits: there is none.
    now_ns: extern "C" fn() -> u64,
    /// 1: the block at an address is in the ledger.
    holds: extern "C" fn(usize) -> u32,
}

type SnapshotFn = unsafe extern "C" fn(*const u8, usize) -> i32;
type MarkFn = unsafe extern "C" fn(*const u8, usize, u32, u32, u32) -> i64;
type WindowFn = unsafe extern "C" fn(*const u8, usize, u32, u32) -> i64;
type WindowFiguresFn = unsafe extern "C" fn(u32, *mut u64, usize) -> i64;
type LabelFn = unsafe extern "C" fn(u32, *const u8, usize, *const u8, usize) -> i64;
type PutStackFn = unsafe extern "C" fn(*const usize, usize) -> i64;
type GetStackFn = unsafe extern "C" fn(u32, *mut usize, usize) -> i64;

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

static OWN: FullWay = FullWay {
    way: Way {
        version: VERSION,
        bytes: size_of::<FullWay>() as u32,
        claim: AtomicU32::new(NONE),
        recording: own_recording,
        pause: own_pause,
        resume: own_resume,
    },
    snapshot: own_snapshot,
    mark: own_mark,
    label: own_label,
    put_in_force: own_put_in_force,
    in_force: labels_in_force,
    put_stack: own_put_stack,
    get_stack: own_get_stack,
    open_window: own_open_window,
    change_window: own_change_window,
    window_figures: own_window_figures,
    now_ns: own_now_ns,
    holds: own_holds,
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

extern "C" fn own_now_ns() -> u64 {
    SHARED.get().map_or(u64::MAX, |shared| shared.clock.now_ns())
}

extern "C" fn own_holds(address: usize) -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| look::holds(shared, address as u64)))
}

/// # Safety
/// The path must be there.
unsafe extern "C" fn own_snapshot(path: *const u8, bytes: usize) -> i32 {
    let Some(shared) = SHARED.get() else { return Errno::SRCH.0 };
    // SAFETY: the caller's.
    let path = unsafe { core::slice::from_raw_parts(path, bytes) };
    let written =
        CStr::from_bytes_with_nul(path).map_err(|_| Errno::INVAL).and_then(|path| finish::snapshot(shared, path));
    written.map_or_else(|why| why.0, |()| 0)
}

/// Text that another copy of this code gave.
///
/// # Safety
/// It must be there.
unsafe fn text<'a>(first: *const u8, bytes: usize) -> &'a [u8] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { core::slice::from_raw_parts(first, bytes) }
}

/// The answer to another copy of this code.
fn answer(told: Result<u32, NotTold>) -> i64 {
    told.map_or_else(NotTold::number, i64::from)
}

/// # Safety
/// The text must be there.
unsafe extern "C" fn own_mark(name: *const u8, bytes: usize, kind: u32, about: u32, of_own_thread: u32) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    let known = [MarkKind::Mark, MarkKind::ScopeBegins, MarkKind::ScopeEnds];
    let Some(kind) = known.into_iter().find(|known| *known as u32 == kind) else { return NotTold::Unknown.number() };
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    answer(marks::mark(shared, &NewMark { kind, name, about, of_own_thread: of_own_thread != 0 }))
}

/// # Safety
/// The texts must be there.
unsafe extern "C" fn own_label(
    parent: u32,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    // SAFETY: the caller's.
    let (key, value) = unsafe { (text(key, key_bytes), text(value, value_bytes)) };
    answer(labels::label(shared, LabelId(parent), key, value).map(|label| label.0))
}

/// # Safety
/// The text must be there.
unsafe extern "C" fn own_open_window(name: *const u8, bytes: usize, mode: u32, of_own_thread: u32) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    let known = [WindowMode::Leaks, WindowMode::All];
    let Some(mode) = known.into_iter().find(|known| *known as u32 == mode) else { return NotTold::Unknown.number() };
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    answer(windows::start(shared, &NewWindow { name, mode, of_own_thread: of_own_thread != 0 }))
}

extern "C" fn own_change_window(row_plus_1: u32, kind: u32) -> i64 {
    let known = [MarkKind::WindowPauses, MarkKind::WindowResumes, MarkKind::WindowStops];
    let kind = known.into_iter().find(|known| *known as u32 == kind).ok_or(NotTold::Unknown);
    let shared = SHARED.get().ok_or(NotTold::Off);
    answer(kind.and_then(|kind| windows::change(shared?, row_plus_1, kind)))
}

/// # Safety
/// There must be room for so many figures.
unsafe extern "C" fn own_window_figures(row_plus_1: u32, into: *mut u64, room: usize) -> i64 {
    let figures = SHARED.get().ok_or(NotTold::Off).and_then(|shared| windows::figures(shared, row_plus_1));
    match figures {
        Ok(figures) => {
            for (index, word) in figures.words().into_iter().enumerate().take(room) {
                // SAFETY: the caller's.
                unsafe { into.add(index).write(word) };
            }
            0
        }
        Err(why) => why.number(),
    }
}

extern "C" fn own_put_in_force(label: u32) -> i64 {
    answer(
        SHARED
            .get()
            .ok_or(NotTold::Off)
            .and_then(|shared| labels::put_in_force(shared, LabelId(label)))
            .map(|before| before.0),
    )
}

extern "C" fn labels_in_force() -> u32 {
    if SHARED.get().is_some() { labels::in_force().0 } else { 0 }
}

/// # Safety
/// The frames must be there.
unsafe extern "C" fn own_put_stack(first: *const usize, count: usize) -> i64 {
    let Some(shared) = SHARED.get() else { return NotKept::Off.number() };
    // SAFETY: the caller's.
    let frames = unsafe { core::slice::from_raw_parts(first, count) };
    depot::put(shared, frames).map_or_else(NotKept::number, |site| i64::from(site.0))
}

/// # Safety
/// The places must be there, and nobody else's.
unsafe extern "C" fn own_get_stack(site: u32, first: *mut usize, count: usize) -> i64 {
    let Some(shared) = SHARED.get() else { return NotKept::Off.number() };
    // SAFETY: the caller's.
    let places = unsafe { core::slice::from_raw_parts_mut(first, count) };
    depot::get(shared, Site(site), places).map_or_else(NotKept::number, |count| count as i64)
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

    /// What a later version has added at a place; `None` if this one has it not.
    fn later<T: Copy>(&'static self, at: usize) -> Option<T> {
        let first = &raw const *self as usize;
        // SAFETY: it says that it has so many bytes, and its address came from its note, or was exposed.
        (self.bytes as usize >= at.saturating_add(size_of::<T>()))
            .then(|| unsafe { core::ptr::with_exposed_provenance::<T>(first.wrapping_add(at)).read() })
    }

    /// Writes what the ledger holds now to a file: [`finish::snapshot`]. `None` if this recorder is older than that.
    pub fn snapshot(&'static self, path: &CStr) -> Option<Result<(), Errno>> {
        let snapshot: SnapshotFn = self.later(offset_of!(FullWay, snapshot))?;
        // SAFETY: the path is there.
        let why = unsafe { snapshot(path.to_bytes_with_nul().as_ptr(), path.to_bytes_with_nul().len()) };
        Some(if why == 0 { Ok(()) } else { Err(Errno(why)) })
    }

    /// Sets a mark: [`marks::mark`].
    ///
    /// # Errors
    /// If it is not in the ledger.
    pub fn mark(&'static self, new: &NewMark) -> Result<u32, NotTold> {
        let mark: MarkFn = self.later(offset_of!(FullWay, mark)).ok_or(NotTold::Off)?;
        let (first, bytes) = (new.name.as_ptr(), new.name.len());
        // SAFETY: the name is there.
        NotTold::check(unsafe { mark(first, bytes, new.kind as u32, new.about, u32::from(new.of_own_thread)) })
    }

    /// The number of a label: [`labels::label`].
    ///
    /// # Errors
    /// If it has none.
    pub fn label(&'static self, parent: LabelId, key: &[u8], value: &[u8]) -> Result<LabelId, NotTold> {
        let label: LabelFn = self.later(offset_of!(FullWay, label)).ok_or(NotTold::Off)?;
        // SAFETY: the texts are there.
        let made = unsafe { label(parent.0, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
        NotTold::check(made).map(LabelId)
    }

    /// Puts a label in force in the calling thread: [`labels::put_in_force`].
    ///
    /// # Errors
    /// If it is not.
    pub fn put_in_force(&'static self, label: LabelId) -> Result<LabelId, NotTold> {
        let put: extern "C" fn(u32) -> i64 = self.later(offset_of!(FullWay, put_in_force)).ok_or(NotTold::Off)?;
        NotTold::check(put(label.0)).map(LabelId)
    }

    /// Opens a window: [`windows::start`].
    ///
    /// # Errors
    /// If it is not open.
    pub fn open_window(&'static self, new: &NewWindow) -> Result<u32, NotTold> {
        let open: WindowFn = self.later(offset_of!(FullWay, open_window)).ok_or(NotTold::Off)?;
        let (first, bytes) = (new.name.as_ptr(), new.name.len());
        // SAFETY: the name is there.
        NotTold::check(unsafe { open(first, bytes, new.mode as u32, u32::from(new.of_own_thread)) })
    }

    /// Pauses a window, resumes or stops it: [`windows::change`].
    ///
    /// # Errors
    /// If it does not.
    pub fn change_window(&'static self, row_plus_1: u32, kind: MarkKind) -> Result<(), NotTold> {
        let at = offset_of!(FullWay, change_window);
        let change: extern "C" fn(u32, u32) -> i64 = self.later(at).ok_or(NotTold::Off)?;
        NotTold::check(change(row_plus_1, kind as u32)).map(drop)
    }

    /// What a window has seen: [`windows::figures`].
    ///
    /// # Errors
    /// If there is none.
    pub fn window_figures(&'static self, row_plus_1: u32) -> Result<WindowSums, NotTold> {
        let ask: WindowFiguresFn = self.later(offset_of!(FullWay, window_figures)).ok_or(NotTold::Off)?;
        let mut words = WindowSums::default().words();
        // SAFETY: there is room for so many.
        NotTold::check(unsafe { ask(row_plus_1, words.as_mut_ptr(), words.len()) })?;
        Ok(WindowSums::of(words))
    }

    /// Nanoseconds since the ledger began. `None` if there is none, or this recorder is older than that.
    pub fn now_ns(&'static self) -> Option<u64> {
        let now: extern "C" fn() -> u64 = self.later(offset_of!(FullWay, now_ns))?;
        Some(now()).filter(|now| *now != u64::MAX)
    }

    /// Whether the block at an address is in the ledger: [`look::holds`].
    pub fn holds(&'static self, address: usize) -> bool {
        let holds = self.later::<extern "C" fn(usize) -> u32>(offset_of!(FullWay, holds));
        holds.is_some_and(|holds| holds(address) != 0)
    }

    /// The label in force in the calling thread.
    pub fn in_force(&'static self) -> LabelId {
        let in_force = self.later::<extern "C" fn() -> u32>(offset_of!(FullWay, in_force));
        LabelId(in_force.map_or(0, |in_force| in_force()))
    }

    /// Keeps a stack: [`depot::put`].
    ///
    /// # Errors
    /// If it is not kept.
    pub fn put_stack(&'static self, frames: &[usize]) -> Result<Site, NotKept> {
        let put: PutStackFn = self.later(offset_of!(FullWay, put_stack)).ok_or(NotKept::Off)?;
        // SAFETY: the frames are there.
        let site = unsafe { put(frames.as_ptr(), frames.len()) };
        u32::try_from(site).map(Site).map_err(|_| NotKept::of(site))
    }

    /// The frames of a stack: [`depot::get`].
    ///
    /// # Errors
    /// If it is not known.
    pub fn get_stack(&'static self, site: Site, into: &mut [usize]) -> Result<usize, NotKept> {
        let get: GetStackFn = self.later(offset_of!(FullWay, get_stack)).ok_or(NotKept::Off)?;
        // SAFETY: the places are there, and lent to us alone.
        let count = unsafe { get(site.0, into.as_mut_ptr(), into.len()) };
        usize::try_from(count).map_err(|_| NotKept::of(count))
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

/// The module whose `malloc` answers the program's calls: the first that has one, but for another recorder, which passes them on.
pub fn answering_module() -> Option<Module> {
    let finder = CodeFinder::new();
    finder.start();
    let is_recorder = |module: &Module| !module.is_us() && of_module(&finder, module).is_some();
    loader::modules().find(|module| module.symbol(b"malloc").is_some() && !is_recorder(module))
}

/// We are about to start. False if somebody else records in this process, or is a moment ahead of us.
pub(crate) fn claim(finder: &CodeFinder) -> bool {
    OWN.way.claim.store(STARTS, Ordering::SeqCst);
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
    OWN.way.claim.store(NONE, Ordering::SeqCst);
}

/// We record from now on.
pub(crate) fn take(shared: &'static Shared) {
    SHARED.set(shared);
    let _ = (&raw const OWN).expose_provenance();
    OWN.way.claim.store(RECORDS, Ordering::SeqCst);
}

/// Who records in this process, as far as we know: we ourselves, or whoever was there before us.
pub fn recorder() -> Option<&'static Way> {
    if OWN.way.claim.load(Ordering::Acquire) == RECORDS {
        return Some(&OWN.way);
    }
    ANOTHER.get()
}
