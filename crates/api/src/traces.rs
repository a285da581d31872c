//! Traces: exact books of a while, in buffers of the program's own.

use crate::error::{ApiError, answer};
use crate::handles::Handles;
use crate::heaps::capabilities_at;
use crate::moments::number;
use crate::output::{Output, written};
use core::ffi::{c_int, c_uint, c_void};
use heapledger_process::traces::{NewTrace, NoTrace};
use heapledger_recorder::trace::text::{self, TracePlace, TraceSource};
use heapledger_recorder::trace::{
    FRAMES_MAX, TraceBuffer, TraceFigures, TraceMode, TraceRecord, TraceShape, TraceState,
};
use heapledger_watch::traces::{self, TRACES_MAX};

static HANDLES: Handles<TRACES_MAX> = Handles::new();

/// What a trace is to be.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TraceOptions {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// As of a window.
    pub mode: c_int,
    /// Frames of a stack.
    pub depth: c_uint,
    /// Innermost frames that are left out.
    pub without: c_uint,
    /// Not 0: only what the calling thread allocates.
    pub of_own_thread: c_int,
}

/// What a trace has seen.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TraceSums {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// In the order of the header.
    pub figures: [u64; 15],
    /// As of a window.
    pub mode: c_int,
    /// 0: nothing changes, 1: paused, 2: it runs.
    pub state: c_int,
}

/// A record of a trace.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Record {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// The block.
    pub block: *const c_void,
    /// Its bytes, as they were asked for.
    pub bytes: usize,
    /// Which of the trace it is, from 1.
    pub number: u64,
    /// When it was allocated, and freed, in nanoseconds since the trace began.
    pub times_ns: [u64; 2],
    /// By which threads.
    pub threads: [c_uint; 2],
    /// Not 0: it is freed.
    pub freed: c_int,
    /// How many frames the stacks have.
    pub depths: [c_uint; 2],
    /// The stacks, innermost frame first.
    pub stacks: [[usize; FRAMES_MAX]; 2],
}

impl From<NoTrace> for ApiError {
    fn from(why: NoTrace) -> ApiError {
        match why {
            NoTrace::Taken | NoTrace::NoMemory => ApiError::NO_ROOM,
            NoTrace::NoRoom => ApiError::TOO_SMALL,
            NoTrace::Busy => ApiError::BUSY,
            NoTrace::None => ApiError::UNKNOWN,
        }
    }
}

/// # Safety
/// There must be a structure whose size stands in it, or null.
unsafe fn shape(options: *const TraceOptions) -> Result<(TraceShape, TraceOptions), ApiError> {
    if options.is_null() {
        return Err(ApiError::INVALID);
    }
    // SAFETY: it begins with its size.
    if unsafe { (*options).size } < size_of::<TraceOptions>() {
        return Err(ApiError::TOO_SMALL);
    }
    // SAFETY: it has so many bytes.
    let options = unsafe { *options };
    let mode = match options.mode {
        0 => TraceMode::All,
        1 => TraceMode::Leaks,
        _ => return Err(ApiError::INVALID),
    };
    if options.depth as usize > FRAMES_MAX {
        return Err(ApiError::INVALID);
    }
    Ok((TraceShape { mode, frames: options.depth as usize }, options))
}

/// How many words a buffer for so many records has; 0 if the options cannot be.
///
/// # Safety
/// There must be a structure whose size stands in it, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_trace_words(records: usize, options: *const TraceOptions) -> usize {
    // SAFETY: the caller's.
    unsafe { shape(options) }.map_or(0, |(shape, _)| shape.words(records))
}

/// Begins a trace in a buffer of so many words, which it has until it ends; gives its number.
///
/// # Safety
/// The buffer must be there, and nobody else's, until [`heapledger_trace_end`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_trace_start(
    buffer: *mut usize,
    words: usize,
    options: *const TraceOptions,
) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { shape(options) }.and_then(|(shape, options)| {
        let is_there = !buffer.is_null() && buffer.is_aligned() && words <= WORDS_MAX;
        if !is_there || words == 0 {
            return Err(ApiError::INVALID);
        }
        // SAFETY: the caller's.
        let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, words) };
        let new =
            NewTrace { shape, without_innermost: options.without as usize, of_own_thread: options.of_own_thread != 0 };
        let place = traces::start(buffer, &new).map_err(|(why, _)| why)?;
        Ok(HANDLES.give(place))
    }))
}

/// More words than any memory has.
const WORDS_MAX: usize = isize::MAX as usize >> 3;

fn with<T>(trace: c_int, f: impl FnOnce(&mut TraceBuffer<'static>) -> T) -> Result<T, ApiError> {
    let place = number(trace).ok().and_then(|handle| HANDLES.place(handle)).ok_or(ApiError::UNKNOWN)?;
    Ok(traces::with(place, f)?)
}

fn change(trace: c_int, to: TraceState, may: impl FnOnce(TraceState) -> bool) -> c_int {
    let changed = with(trace, |trace| {
        let may = may(trace.state());
        if may {
            trace.set_state(to);
        }
        may
    });
    answer(changed.and_then(|changed| if changed { Ok(0) } else { Err(ApiError::NOT_SO) }))
}

/// No block becomes a record from now on; frees of those that are one are noted.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_pause(trace: c_int) -> c_int {
    change(trace, TraceState::Paused, |state| state == TraceState::Running)
}

/// It runs again.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_resume(trace: c_int) -> c_int {
    change(trace, TraceState::Running, |state| state != TraceState::Running)
}

/// Nothing changes any more.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_stop(trace: c_int) -> c_int {
    change(trace, TraceState::Stopped, |state| state != TraceState::Stopped)
}

/// Begins anew: without records, all figures 0.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_restart(trace: c_int) -> c_int {
    answer(with(trace, |trace| trace.start()).map(|()| 0))
}

/// It is over: its buffer is the program's again.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_end(trace: c_int) -> c_int {
    answer(number(trace).and_then(|handle| {
        let place = HANDLES.place(handle).filter(|_| HANDLES.take_back(handle)).ok_or(ApiError::UNKNOWN)?;
        traces::end(place).inspect_err(|_| HANDLES.keep(handle))?;
        Ok(0)
    }))
}

/// How many records there are.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_trace_count(trace: c_int) -> c_int {
    answer(with(trace, |trace| trace.figures().records as u32))
}

/// What it has seen.
///
/// # Safety
/// There must be a structure whose size stands in it, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_trace_figures(trace: c_int, into: *mut TraceSums) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<TraceSums>() {
        return ApiError::TOO_SMALL.0;
    }
    let seen = with(trace, |trace| (trace.figures(), trace.shape().mode, trace.state()));
    answer(seen.map(|(figures, mode, state)| {
        let figures = [
            figures.allocations,
            figures.frees,
            figures.unknown_frees,
            figures.allocated_bytes,
            figures.freed_bytes,
            figures.live_blocks,
            figures.live_bytes,
            figures.peak_bytes,
            figures.records,
            figures.most_records,
            figures.capacity,
            figures.lost_live,
            figures.lost_live_bytes,
            figures.lost_freed,
            figures.missed_calls,
        ];
        let mode = if mode == TraceMode::All { 0 } else { 1 };
        // SAFETY: there is room for it.
        unsafe { *into = TraceSums { size, figures, mode, state: state as c_int } };
        0
    }))
}

/// A record by its index; 0 is the oldest one.
///
/// # Safety
/// There must be a structure whose size stands in it, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_trace_get(trace: c_int, index: usize, into: *mut Record) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<Record>() {
        return ApiError::TOO_SMALL.0;
    }
    let record = with(trace, |trace| trace.get(index)).and_then(|record| record.ok_or(ApiError::UNKNOWN));
    answer(record.map(|record| {
        let mut told = Record {
            size,
            block: record.address as *const c_void,
            bytes: record.size,
            number: record.number,
            times_ns: [record.time, 0],
            threads: [record.thread, 0],
            freed: c_int::from(record.freed.is_some()),
            depths: [0; 2],
            stacks: [[0; FRAMES_MAX]; 2],
        };
        if let Some(freed) = &record.freed {
            told.times_ns[1] = freed.time;
            told.threads[1] = freed.thread;
        }
        let freed = record.freed.as_ref().map_or(&[][..], |freed| freed.stack());
        for ((stack, depth), frames) in told.stacks.iter_mut().zip(&mut told.depths).zip([record.stack(), freed]) {
            for (place, frame) in stack.iter_mut().zip(frames) {
                *place = *frame;
            }
            *depth = frames.len() as c_uint;
        }
        // SAFETY: there is room for it.
        unsafe { *into = told };
        0
    }))
}

/// A trace that is dumped.
struct Dumped {
    trace: c_int,
    shape: TraceShape,
    capabilities: u32,
}

/// Memory inside of the chip, and memory beside it, in the words of ESP-IDF.
const EXTERNAL: u32 = 1 << 10;
const INTERNAL: u32 = 1 << 11;

impl TraceSource for Dumped {
    fn mode(&self) -> TraceMode {
        self.shape.mode
    }
    fn frames(&self) -> usize {
        self.shape.frames
    }
    fn figures(&mut self) -> TraceFigures {
        with(self.trace, |trace| trace.figures()).unwrap_or_default()
    }
    fn after(&mut self, record: Option<&TraceRecord>) -> Option<TraceRecord> {
        with(self.trace, |trace| trace.after(record)).ok().flatten()
    }
    fn place(&self, address: usize) -> TracePlace {
        let place = match capabilities_at(address) {
            Some(known) if known & EXTERNAL != 0 => TracePlace::External,
            Some(known) if known & INTERNAL == 0 => TracePlace::Somewhere,
            Some(_) | None => TracePlace::Internal,
        };
        let is_shown = match place {
            TracePlace::External => self.capabilities & EXTERNAL != 0,
            TracePlace::Internal => self.capabilities & INTERNAL != 0,
            TracePlace::Somewhere | TracePlace::Hidden => self.capabilities == u32::MAX,
        };
        if is_shown { place } else { TracePlace::Hidden }
    }
}

/// Writes all records and figures as text, in the form of ESP-IDF.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_trace_dump(trace: c_int, capabilities: c_uint, output: *const Output) -> c_int {
    answer(with(trace, |trace| trace.shape()).and_then(|shape| {
        let mut source = Dumped { trace, shape, capabilities };
        // SAFETY: the caller's.
        unsafe { written(output, |writer| text::dump(&mut source, writer)) }
    }))
}
