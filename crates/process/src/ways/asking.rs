//! Asking whoever records, who may be another copy of this code, of another version.

use super::own::WHOLE_FREES;
use super::{EntryFn, FullWay, GetStackFn, LabelFn, MarkFn, PutStackFn, SnapshotFn, Way, WindowFiguresFn, WindowFn};
use crate::depot::NotKept;
use crate::marks::{NewMark, NotTold};
use crate::switch::Recording;
use crate::windows::{NewWindow, WindowSums};
use core::ffi::CStr;
use core::mem::offset_of;
use heapledger_format::mark::MarkKind;
use heapledger_format::{FreeDepth, LabelId, Site};
use heapledger_linux::syscall::Errno;

/// Where another recorder sees calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// There.
    At(usize),
    /// Wherever they go.
    Anywhere,
    /// Nowhere.
    Nowhere,
}

impl Way {
    /// Where it sees calls of a function by this name that another module makes. (Recorders that are older see all or do not tell.)
    pub fn entry(&'static self, name: &[u8]) -> Entry {
        let Some(entry) = self.later::<EntryFn>(offset_of!(FullWay, entry)) else { return Entry::Anywhere };
        // SAFETY: the name is there.
        match unsafe { entry(name.as_ptr(), name.len()) } {
            0 => Entry::Nowhere,
            u64::MAX => Entry::Anywhere,
            address => Entry::At(address as usize),
        }
    }

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
    pub(super) fn later<T: Copy>(&'static self, at: usize) -> Option<T> {
        let first = &raw const *self as usize;
        // SAFETY: it says that it has so many bytes, and its address came from its note, or was exposed.
        (self.bytes as usize >= at.saturating_add(size_of::<T>()))
            .then(|| unsafe { core::ptr::with_exposed_provenance::<T>(first.wrapping_add(at)).read() })
    }

    /// Writes what the ledger holds now to a file: [`crate::finish::snapshot`]. `None` if this recorder is older than that.
    pub fn snapshot(&'static self, path: &CStr) -> Option<Result<(), Errno>> {
        let snapshot: SnapshotFn = self.later(offset_of!(FullWay, snapshot))?;
        // SAFETY: the path is there.
        let why = unsafe { snapshot(path.to_bytes_with_nul().as_ptr(), path.to_bytes_with_nul().len()) };
        Some(if why == 0 { Ok(()) } else { Err(Errno(why)) })
    }

    /// Sets a mark: [`crate::marks::mark`].
    ///
    /// # Errors
    /// If it is not in the ledger.
    pub fn mark(&'static self, new: &NewMark) -> Result<u32, NotTold> {
        let mark: MarkFn = self.later(offset_of!(FullWay, mark)).ok_or(NotTold::Off)?;
        let (first, bytes) = (new.name.as_ptr(), new.name.len());
        // SAFETY: the name is there.
        NotTold::check(unsafe { mark(first, bytes, new.kind as u32, new.about, u32::from(new.of_own_thread)) })
    }

    /// The number of a label: [`crate::labels::label`].
    ///
    /// # Errors
    /// If it has none.
    pub fn label(&'static self, parent: LabelId, key: &[u8], value: &[u8]) -> Result<LabelId, NotTold> {
        let label: LabelFn = self.later(offset_of!(FullWay, label)).ok_or(NotTold::Off)?;
        // SAFETY: the texts are there.
        let made = unsafe { label(parent.0, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
        NotTold::check(made).map(LabelId)
    }

    /// Puts a label in force in the calling thread: [`crate::labels::put_in_force`].
    ///
    /// # Errors
    /// If it is not.
    pub fn put_in_force(&'static self, label: LabelId) -> Result<LabelId, NotTold> {
        let put: extern "C" fn(u32) -> i64 = self.later(offset_of!(FullWay, put_in_force)).ok_or(NotTold::Off)?;
        NotTold::check(put(label.0)).map(LabelId)
    }

    /// Opens a window: [`crate::windows::start`].
    ///
    /// # Errors
    /// If it is not open.
    pub fn open_window(&'static self, new: &NewWindow) -> Result<u32, NotTold> {
        let open: WindowFn = self.later(offset_of!(FullWay, open_window)).ok_or(NotTold::Off)?;
        let (first, bytes) = (new.name.as_ptr(), new.name.len());
        let mode = new.mode as u32 | if new.whole_frees { WHOLE_FREES } else { 0 };
        // SAFETY: the name is there.
        NotTold::check(unsafe { open(first, bytes, mode, u32::from(new.of_own_thread)) })
    }

    /// Pauses a window, resumes or stops it: [`crate::windows::change`].
    ///
    /// # Errors
    /// If it does not.
    pub fn change_window(&'static self, row_plus_1: u32, kind: MarkKind) -> Result<(), NotTold> {
        let at = offset_of!(FullWay, change_window);
        let change: extern "C" fn(u32, u32) -> i64 = self.later(at).ok_or(NotTold::Off)?;
        NotTold::check(change(row_plus_1, kind as u32)).map(drop)
    }

    /// What a window has seen: [`crate::windows::figures`].
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

    /// How many guarded blocks are damaged; `block`: whether that one is, 0: of all. Each is entered as an error.
    ///
    /// # Errors
    /// If blocks are not guarded, none begins there, or not all could be looked at.
    pub fn check_integrity(&'static self, block: usize) -> Result<u64, NotTold> {
        let check: extern "C" fn(usize) -> i64 =
            self.later(offset_of!(FullWay, check_integrity)).ok_or(NotTold::NotSo)?;
        let damaged = check(block);
        u64::try_from(damaged).or_else(|_| NotTold::check(damaged).map(u64::from))
    }

    /// New blocks are guarded as at the level of this number from now on ([`crate::guarded::Guard::lower`]); `None` to ask only. The level before.
    ///
    /// # Errors
    /// If there is no such level, or it is above the present one.
    pub fn guard_level(&'static self, level: Option<u8>) -> Result<u32, NotTold> {
        let set: extern "C" fn(i64) -> i64 = self.later(offset_of!(FullWay, guard_level)).ok_or(NotTold::NotSo)?;
        NotTold::check(set(level.map_or(-1, i64::from)))
    }

    /// What is taken of the stacks of frees from now on: [`crate::depth_in_force::set`].
    ///
    /// # Errors
    /// As of that. [`NotTold::NotSo`] also if this recorder is older than that.
    pub fn set_free_depth(&'static self, depth: FreeDepth) -> Result<(), NotTold> {
        let set: extern "C" fn(u64) -> i64 = self.later(offset_of!(FullWay, free_depth)).ok_or(NotTold::NotSo)?;
        NotTold::check(set(depth.word())).map(drop)
    }

    /// Whether the block at an address is in the ledger: [`crate::look::holds`].
    pub fn holds(&'static self, address: usize) -> bool {
        let holds = self.later::<extern "C" fn(usize) -> u32>(offset_of!(FullWay, holds));
        holds.is_some_and(|holds| holds(address) != 0)
    }

    /// Bytes that the block at an address was asked for, if it is in the ledger: [`crate::look::size_of`].
    pub fn size_of(&'static self, address: usize, is_inner: bool) -> Option<usize> {
        let size_of: extern "C" fn(usize, u32) -> u64 = self.later(offset_of!(FullWay, size_of))?;
        let size = size_of(address, u32::from(is_inner));
        (size != u64::MAX).then_some(size as usize)
    }

    /// Bytes that live, in the ledger: [`crate::look::live_bytes`].
    pub fn live_bytes(&'static self) -> u64 {
        let live = self.later::<extern "C" fn() -> u64>(offset_of!(FullWay, live_bytes));
        live.map_or(0, |live| live())
    }

    /// How often the history has begun to overwrite what it holds.
    pub fn history_rounds(&'static self) -> u64 {
        let rounds = self.later::<extern "C" fn() -> u64>(offset_of!(FullWay, history_rounds));
        rounds.map_or(0, |rounds| rounds())
    }

    /// The label in force in the calling thread.
    pub fn in_force(&'static self) -> LabelId {
        let in_force = self.later::<extern "C" fn() -> u32>(offset_of!(FullWay, in_force));
        LabelId(in_force.map_or(0, |in_force| in_force()))
    }

    /// Keeps a stack: [`crate::depot::put`].
    ///
    /// # Errors
    /// If it is not kept.
    pub fn put_stack(&'static self, frames: &[usize]) -> Result<Site, NotKept> {
        let put: PutStackFn = self.later(offset_of!(FullWay, put_stack)).ok_or(NotKept::Off)?;
        // SAFETY: the frames are there.
        let site = unsafe { put(frames.as_ptr(), frames.len()) };
        u32::try_from(site).map(Site).map_err(|_| NotKept::of(site))
    }

    /// The frames of a stack: [`crate::depot::get`].
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
