//! Measuring what the program does from one moment to another, and calls that fail on purpose.

use crate::error::{ApiError, answer};
use crate::handles::Handles;
use crate::moments::number;
use core::ffi::{c_int, c_void};
use heapledger_process::backtrace::function_of;
use heapledger_watch::Stats;
use heapledger_watch::faults::{self, Of, Rule};
use heapledger_watch::regions::{self, REGIONS_MAX};

static REGIONS: Handles<REGIONS_MAX> = Handles::new();
static FAULTS: Handles<{ faults::FAULTS_MAX }> = Handles::new();

/// What was done in a region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionFigures {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// In the order of the header.
    pub figures: [u64; 6],
}

/// Measures what the program does from now on, or the calling thread; gives a number.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_region_begin(of_own_thread: c_int) -> c_int {
    let begun = if of_own_thread != 0 { regions::begin_of_thread() } else { regions::begin() };
    answer(begun.map(|place| REGIONS.give(place)).ok_or(ApiError::NO_ROOM))
}

fn region(region: c_int) -> Result<usize, ApiError> {
    number(region).ok().and_then(|handle| REGIONS.place(handle)).ok_or(ApiError::UNKNOWN)
}

/// What was done in it until now.
///
/// # Safety
/// There must be a structure whose size stands in it, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_region_figures(region: c_int, into: *mut RegionFigures) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<RegionFigures>() {
        return ApiError::TOO_SMALL.0;
    }
    let stats = self::region(region).and_then(|place| regions::stats(place).ok_or(ApiError::NOT_SO));
    answer(stats.map(|stats| {
        let Stats { allocations, allocated_bytes, frees, freed_bytes, failures, peak_bytes, .. } = stats;
        let figures = [allocations, allocated_bytes, frees, freed_bytes, failures, peak_bytes];
        // SAFETY: there is room for it.
        unsafe { *into = RegionFigures { size, figures } };
        0
    }))
}

/// It is over.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_region_end(region: c_int) -> c_int {
    answer(number(region).and_then(|handle| {
        let place = REGIONS.place(handle).ok_or(ApiError::UNKNOWN)?;
        if !regions::may_end(place) {
            return Err(ApiError::NOT_SO);
        }
        if !REGIONS.take_back(handle) {
            return Err(ApiError::UNKNOWN);
        }
        regions::end(place);
        Ok(0)
    }))
}

/// Rules of faults.
pub const RULES: &[(&str, c_int)] = &[("NTH", 0), ("FROM_NTH", 1), ("EVERY", 2)];

/// Calls fail from now on, by a rule; gives a number.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_fail(rule: c_int, n: usize, of_own_thread: c_int, within: *const c_void) -> c_int {
    let rule = match rule {
        0 => Rule::nth(n),
        1 => Rule::from_nth(n),
        2 => Rule::every(n),
        _ => return ApiError::INVALID.0,
    };
    let rule = match (within.is_null(), function_of(within as usize)) {
        (true, _) => rule,
        (false, Some(code)) => rule.within_code(code),
        (false, None) => return ApiError::UNKNOWN.0,
    };
    let of = if of_own_thread != 0 { Of::OwnThread } else { Of::All };
    answer(faults::begin(rule, of).map(|place| FAULTS.give(place)).ok_or(ApiError::NO_ROOM))
}

fn fault_figure(fault: c_int, which: usize) -> u64 {
    let place = number(fault).ok().and_then(|handle| FAULTS.place(handle));
    let figures = place.and_then(faults::figures).unwrap_or_default();
    figures.get(which).copied().unwrap_or(0)
}

/// How many calls it was asked about.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_fail_calls(fault: c_int) -> u64 {
    fault_figure(fault, 0)
}

/// How many of them failed by it.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_fail_failed(fault: c_int) -> u64 {
    fault_figure(fault, 1)
}

/// They fail no longer.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_fail_end(fault: c_int) -> c_int {
    answer(number(fault).and_then(|handle| {
        let place = FAULTS.place(handle).ok_or(ApiError::UNKNOWN)?;
        if FAULTS.take_back(handle) && faults::end(place) { Ok(0) } else { Err(ApiError::UNKNOWN) }
    }))
}
