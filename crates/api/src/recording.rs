//! Which recorder there is, and what it does.

use crate::error::{ApiError, answer};
use crate::text::text;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use heapledger_format::FreeDepth;
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::text::Text;
use heapledger_process::c_heap::{self, CHeap};
use heapledger_process::guarded::Level;
use heapledger_process::marks::NotTold;
use heapledger_process::switch::Recording;
use heapledger_process::ways::{self, OurMalloc, Way};

/// Of these functions. It rises when some are added; none is ever removed or changed.
pub const API_VERSION: c_uint = 1;

/// What `heapledger_state` answers.
pub const STATES: &[(&str, c_int)] = &[("OFF", 0), ("PAUSED", 1), ("ON", 2)];

/// What `heapledger_guard_level` takes and answers.
pub const GUARD_LEVELS: &[(&str, c_int)] = &[("OFF", 0), ("LIGHT", 1), ("FULL", 2), ("PAGE", 3), ("SAMPLED", 4)];

const _: () = {
    let [(_, off), (_, light), (_, full), (_, page), (_, sampled)] = GUARD_LEVELS else { panic!() };
    assert!(*off == Level::Off as c_int && *light == Level::Light as c_int && *full == Level::Full as c_int);
    assert!(*page == Level::Page as c_int && *sampled == Level::Sampled as c_int);
};

/// Who records.
///
/// # Errors
/// If nobody does.
pub(crate) fn recorder() -> Result<&'static Way, ApiError> {
    let way = ways::recorder().ok_or(ApiError::OFF)?;
    // The first call of a forked child can be one of these.
    let is_there = way.recording() != Recording::Off || ways::begins_in_child();
    is_there.then_some(way).ok_or(ApiError::OFF)
}

/// The version of what is recorded with.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// The version of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_api_version() -> c_uint {
    API_VERSION
}

/// What is recorded in this process at this moment.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_state() -> c_int {
    match recorder().map(|way| way.recording()) {
        Ok(Recording::On) => 2,
        Ok(Recording::Paused) => 1,
        Ok(Recording::Off) | Err(_) => 0,
    }
}

/// New blocks pass by from now on.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_pause() -> c_int {
    answer(recorder().and_then(|way| if way.pause() { Ok(0) } else { Err(ApiError::NOT_SO) }))
}

/// New blocks are entered again.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_resume() -> c_int {
    answer(recorder().and_then(|way| if way.resume() { Ok(0) } else { Err(ApiError::NOT_SO) }))
}

/// Nanoseconds since the ledger began; all ones if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_now_ns() -> u64 {
    recorder().ok().and_then(|way| way.now_ns()).unwrap_or(u64::MAX)
}

/// Writes what the ledger holds now to a file.
///
/// # Safety
/// The path must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_snapshot(path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { text(path) }.and_then(|path| {
        let mut zero_ended = Text::<PATH_BYTES_MAX>::new();
        zero_ended.push(path);
        if path.is_empty() || zero_ended.is_cut() {
            return Err(ApiError::INVALID);
        }
        match recorder()?.snapshot(zero_ended.c_str()) {
            Some(written) => written.map(|()| 0).map_err(ApiError::system),
            None => Err(ApiError::OFF),
        }
    }))
}

/// 1 if the block at this address is in the ledger; the caller must own it.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_is_live(block: *const c_void) -> c_int {
    answer(recorder().map(|way| u32::from(way.holds(block as usize))))
}

/// Looks at the block that begins at this address, or at all blocks, for damage beside them: how many are damaged. Each is entered as an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_check_integrity(block: *const c_void) -> c_int {
    let checked = recorder().and_then(|way| {
        way.check_integrity(block as usize).map_err(|why| match why {
            NotTold::Busy => ApiError::UNSUPPORTED,
            other => ApiError::from(other),
        })
    });
    answer(checked.map(|damaged| u32::try_from(damaged).unwrap_or(u32::MAX).min(i32::MAX as u32)))
}

/// New blocks are guarded as at this level from now on, which must not be above the present one; below 0 nothing changes. The level before.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_guard_level(level: c_int) -> c_int {
    // In forked children too, which are not recorded and guarded all the same.
    let way = ways::recorder().ok_or(ApiError::OFF);
    let wanted = match level {
        ..0 => Ok(None),
        level => u8::try_from(level).map(Some).map_err(|_| ApiError::INVALID),
    };
    answer(wanted.and_then(|wanted| way?.guard_level(wanted).map_err(ApiError::from)))
}

/// This much is taken of the stacks of frees from now on: what `run --free-depth` takes.
///
/// # Safety
/// The depth must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_free_depth(depth: *const c_char) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { text(depth) }.and_then(|depth| {
        let depth = FreeDepth::parse(depth).ok_or(ApiError::INVALID)?;
        Ok(recorder()?.set_free_depth(depth).map(|()| 0)?)
    }))
}

/// What the C library's heap holds, all arenas together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapInfo {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// What it says.
    pub heap: [usize; 6],
}

/// What the C library says of its heap.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heap_info(info: *mut HeapInfo) -> c_int {
    if info.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*info).size };
    if size < size_of::<HeapInfo>() {
        return ApiError::TOO_SMALL.0;
    }
    answer(c_heap::info(OurMalloc::PassesOn).ok_or(ApiError::UNSUPPORTED).map(|heap| {
        let CHeap { system_bytes, in_use_bytes, free_bytes, releasable_bytes, mapped_blocks, mapped_bytes } = heap;
        let heap = [system_bytes, in_use_bytes, free_bytes, releasable_bytes, mapped_blocks, mapped_bytes];
        // SAFETY: there is room for it.
        unsafe { *info = HeapInfo { size, heap } };
        0
    }))
}

const _: () = assert!(size_of::<HeapInfo>() == 56, "a later version has its first size in a constant");
