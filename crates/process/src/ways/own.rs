//! What this copy of the code answers to others.

use super::SHARED;
use crate::depot::{self, NotKept};
use crate::depth_in_force;
use crate::guarded::{GUARD, Level};
use crate::marks::{self, NewMark, NotTold};
use crate::once::Noted;
use crate::sweep::{self, Swept};
use crate::switch::Recording;
use crate::windows::{self, NewWindow};
use crate::{finish, labels, look};
use core::ffi::CStr;
use heapledger_format::errors::FoundAt;
use heapledger_format::mark::{MarkKind, WindowMode};
use heapledger_format::{FreeDepth, LabelId, Site};
use heapledger_linux::syscall::Errno;

/// Where calls of another module's of a function are seen by us; `None`: nowhere.
pub type EntryOf = fn(&[u8]) -> Option<usize>;

/// Beside the mode of a window: it asks for whole stacks of frees.
pub(super) const WHOLE_FREES: u32 = 0x100;

static ENTRY_OF: Noted<EntryOf> = Noted::new();

/// Says where calls of modules are seen, of functions by their names. Who does not say it sees only its own.
pub fn offer_entries(of: &'static EntryOf) {
    ENTRY_OF.set(of);
}

/// # Safety
/// The name must be there.
pub(super) unsafe extern "C" fn entry(name: *const u8, bytes: usize) -> u64 {
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    ENTRY_OF.get().and_then(|of| of(name)).map_or(0, |entry| entry as u64)
}

pub(super) extern "C" fn recording() -> u32 {
    SHARED.get().map_or(Recording::Off, |shared| shared.switch.get()) as u32
}

pub(super) extern "C" fn pause() -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| shared.switch.pause()))
}

pub(super) extern "C" fn resume() -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| shared.switch.resume()))
}

pub(super) extern "C" fn now_ns() -> u64 {
    SHARED.get().map_or(u64::MAX, |shared| shared.clock.now_ns())
}

pub(super) extern "C" fn holds(address: usize) -> u32 {
    u32::from(SHARED.get().is_some_and(|shared| look::holds(shared, address as u64)))
}

pub(super) extern "C" fn size_of(address: usize, is_inner: u32) -> u64 {
    let size = SHARED.get().and_then(|shared| look::size_of(shared, address as u64, is_inner != 0));
    size.unwrap_or(u64::MAX)
}

pub(super) extern "C" fn live_bytes() -> u64 {
    SHARED.get().map_or(0, look::live_bytes)
}

pub(super) extern "C" fn history_rounds() -> u64 {
    SHARED.get().map_or(0, |shared| shared.history.rounds())
}

/// # Safety
/// The path must be there.
pub(super) unsafe extern "C" fn snapshot(path: *const u8, bytes: usize) -> i32 {
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
pub(super) unsafe fn text<'a>(first: *const u8, bytes: usize) -> &'a [u8] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { core::slice::from_raw_parts(first, bytes) }
}

/// The answer to another copy of this code.
pub(super) fn answered(told: Result<u32, NotTold>) -> i64 {
    told.map_or_else(NotTold::number, i64::from)
}

/// # Safety
/// The text must be there.
pub(super) unsafe extern "C" fn mark(name: *const u8, bytes: usize, kind: u32, about: u32, of_own_thread: u32) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    let known = [MarkKind::Mark, MarkKind::ScopeBegins, MarkKind::ScopeEnds];
    let Some(kind) = known.into_iter().find(|known| *known as u32 == kind) else { return NotTold::Unknown.number() };
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    answered(marks::mark(shared, &NewMark { kind, name, about, of_own_thread: of_own_thread != 0 }))
}

/// # Safety
/// The texts must be there.
pub(super) unsafe extern "C" fn label(
    parent: u32,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    // SAFETY: the caller's.
    let (key, value) = unsafe { (text(key, key_bytes), text(value, value_bytes)) };
    answered(labels::label(shared, LabelId(parent), key, value).map(|label| label.0))
}

/// # Safety
/// The text must be there.
pub(super) unsafe extern "C" fn open_window(name: *const u8, bytes: usize, mode: u32, of_own_thread: u32) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    let known = [WindowMode::Leaks, WindowMode::All];
    let whole_frees = mode & WHOLE_FREES != 0;
    let Some(mode) = known.into_iter().find(|known| *known as u32 == mode & !WHOLE_FREES) else {
        return NotTold::Unknown.number();
    };
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    answered(windows::start(shared, &NewWindow { name, mode, of_own_thread: of_own_thread != 0, whole_frees }))
}

pub(super) extern "C" fn change_window(row_plus_1: u32, kind: u32) -> i64 {
    let known = [MarkKind::WindowPauses, MarkKind::WindowResumes, MarkKind::WindowStops];
    let kind = known.into_iter().find(|known| *known as u32 == kind).ok_or(NotTold::Unknown);
    let shared = SHARED.get().ok_or(NotTold::Off);
    answered(kind.and_then(|kind| windows::change(shared?, row_plus_1, kind)))
}

/// # Safety
/// There must be room for so many figures.
pub(super) unsafe extern "C" fn window_figures(row_plus_1: u32, into: *mut u64, room: usize) -> i64 {
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

pub(super) extern "C" fn put_in_force(label: u32) -> i64 {
    answered(
        SHARED
            .get()
            .ok_or(NotTold::Off)
            .and_then(|shared| labels::put_in_force(shared, LabelId(label)))
            .map(|before| before.0),
    )
}

pub(super) extern "C" fn in_force() -> u32 {
    if SHARED.get().is_some() { labels::in_force().0 } else { 0 }
}

/// # Safety
/// The frames must be there.
pub(super) unsafe extern "C" fn put_stack(first: *const usize, count: usize) -> i64 {
    let Some(shared) = SHARED.get() else { return NotKept::Off.number() };
    // SAFETY: the caller's.
    let frames = unsafe { core::slice::from_raw_parts(first, count) };
    depot::put(shared, frames).map_or_else(NotKept::number, |site| i64::from(site.0))
}

/// # Safety
/// The places must be there, and nobody else's.
pub(super) unsafe extern "C" fn get_stack(site: u32, first: *mut usize, count: usize) -> i64 {
    let Some(shared) = SHARED.get() else { return NotKept::Off.number() };
    // SAFETY: the caller's.
    let places = unsafe { core::slice::from_raw_parts_mut(first, count) };
    depot::get(shared, Site(site), places).map_or_else(NotKept::number, |count| count as i64)
}

pub(super) extern "C" fn check_integrity(block: usize) -> i64 {
    let Some(shared) = SHARED.get().filter(|_| GUARD.is_on()) else { return NotTold::NotSo.number() };
    if block != 0 {
        return sweep::one(shared, block).map_or(NotTold::Unknown.number(), i64::from);
    }
    match sweep::everywhere(shared, FoundAt::Sweep) {
        // Nothing is said of what nobody has seen.
        Swept { damaged: 0, unseen: 1.. } => NotTold::Busy.number(),
        Swept { damaged, .. } => i64::try_from(damaged).unwrap_or(i64::MAX),
    }
}

pub(super) extern "C" fn free_depth(word: u64) -> i64 {
    let shared = SHARED.get().ok_or(NotTold::Off);
    let depth = FreeDepth::of_word(word).ok_or(NotTold::Invalid);
    answered(depth.and_then(|depth| depth_in_force::set(shared?, depth)).map(|()| 0))
}

pub(super) extern "C" fn guard_level(level: i64) -> i64 {
    let wanted = match level {
        ..0 => None,
        level => match Level::with_number(level) {
            Some(level) => Some(level),
            None => return NotTold::Invalid.number(),
        },
    };
    GUARD.lower(wanted).map_or_else(NotTold::number, |level| level as i64)
}
