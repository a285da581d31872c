//! Trace windows.

use crate::error::{ApiError, answer};
use crate::moments::number;
use crate::recording::recorder;
use crate::text::text;
use core::ffi::{c_char, c_int};
use heapledger_format::mark::{MarkKind, WindowMode};
use heapledger_process::windows::NewWindow;

/// What a window has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WindowFigures {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// Blocks allocated in it.
    pub allocations: u64,
    /// Frees since it was opened.
    pub frees: u64,
    /// Bytes asked for in its blocks.
    pub bytes_allocated: u64,
    /// Bytes of its blocks that were freed.
    pub bytes_freed: u64,
    /// Its blocks that live.
    pub live_blocks: u64,
    /// Bytes in these.
    pub live_bytes: u64,
    /// Most bytes that were found to live.
    pub peak_bytes: u64,
    /// By how much there may have been more in between.
    pub peak_error: u64,
}

/// Bytes that the structure had in the first version.
const FIRST_BYTES: usize = 72;

/// Modes: what is asked for. Whatever the mode, the ledger has both.
pub const MODES: &[(&str, c_int)] = &[("ALL", 0), ("LEAKS", 1), ("WHOLE_FREES", WHOLE_FREES)];

/// Beside a mode: whole stacks of frees are taken until the window is over.
const WHOLE_FREES: c_int = 256;

/// A window opens; gives its number.
///
/// # Safety
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_window_open(name: *const c_char, mode: c_int, of_own_thread: c_int) -> c_int {
    let whole_frees = mode & WHOLE_FREES != 0;
    let mode = match mode & !WHOLE_FREES {
        0 => Ok(WindowMode::All),
        1 => Ok(WindowMode::Leaks),
        _ => Err(ApiError::INVALID),
    };
    // SAFETY: the caller's.
    let name = unsafe { text(name) };
    let open = |mode| {
        let new = NewWindow { name: name?, mode, of_own_thread: of_own_thread != 0, whole_frees };
        Ok(recorder()?.open_window(&new)?)
    };
    answer(mode.and_then(open))
}

fn change(window: c_int, kind: MarkKind) -> c_int {
    answer(number(window).and_then(|window| Ok(recorder()?.change_window(window, kind).map(|()| 0)?)))
}

/// What is allocated from now on is not in it.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_window_pause(window: c_int) -> c_int {
    change(window, MarkKind::WindowPauses)
}

/// What is allocated from now on is in it again.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_window_resume(window: c_int) -> c_int {
    change(window, MarkKind::WindowResumes)
}

/// It is over.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_window_stop(window: c_int) -> c_int {
    change(window, MarkKind::WindowStops)
}

/// What it has seen.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_window_figures(window: c_int, figures: *mut WindowFigures) -> c_int {
    if figures.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*figures).size };
    if size < FIRST_BYTES {
        return ApiError::TOO_SMALL.0;
    }
    let sums = number(window).and_then(|window| Ok(recorder()?.window_figures(window)?));
    answer(sums.map(|sums| {
        // SAFETY: there is room for what the first version had.
        unsafe {
            *figures = WindowFigures {
                size,
                allocations: sums.allocations,
                frees: sums.frees,
                bytes_allocated: sums.bytes_allocated,
                bytes_freed: sums.bytes_freed,
                live_blocks: sums.live_blocks,
                live_bytes: sums.live_bytes,
                peak_bytes: sums.peak_bytes,
                peak_error: sums.peak_error,
            }
        };
        0
    }))
}

const _: () = assert!(size_of::<WindowFigures>() == FIRST_BYTES);
