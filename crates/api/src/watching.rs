//! Watchpoints of the processor.

use crate::error::{ApiError, answer};
use core::ffi::{c_int, c_uint, c_void};
use heapledger_process::watchpoint::{self, NotWatched};

impl From<NotWatched> for ApiError {
    fn from(why: NotWatched) -> ApiError {
        match why {
            NotWatched::Invalid => ApiError::INVALID,
            NotWatched::TooMany => ApiError::NO_ROOM,
            NotWatched::Unknown => ApiError::UNKNOWN,
            NotWatched::System(errno) => ApiError::system(errno),
        }
    }
}

/// SIGTRAP follows each write to so many bytes from now on. The number of the watch.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_watch(address: *const c_void, bytes: c_uint) -> c_int {
    answer(watchpoint::watch(address as usize, bytes as usize).map_err(ApiError::from))
}

/// A watch ends; how many writes there were.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_unwatch(watch: c_int) -> c_int {
    let ended = u32::try_from(watch).map_err(|_| NotWatched::Unknown).and_then(watchpoint::unwatch);
    answer(ended.map(|writes| u32::try_from(writes).unwrap_or(u32::MAX).min(i32::MAX as u32)).map_err(ApiError::from))
}
