//! When recording begins and ends, in a program that records itself.

use crate::error::{ApiError, answer};
use crate::text::text;
use core::ffi::{c_char, c_int};
use heapledger_process::life::{self, Unchanged};

impl From<Unchanged> for ApiError {
    fn from(why: Unchanged) -> ApiError {
        match why {
            Unchanged::Off => ApiError::OFF,
            Unchanged::NotSo => ApiError::NOT_SO,
            Unchanged::Words => ApiError::INVALID,
            Unchanged::Impossible => ApiError::IMPOSSIBLE,
        }
    }
}

fn done(done: Result<(), Unchanged>) -> c_int {
    answer(done.map(|()| 0).map_err(ApiError::from))
}

/// Recording begins.
///
/// # Safety
/// The options must be a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_start(options: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let options = if options.is_null() { Ok(&[][..]) } else { unsafe { text(options) } };
    answer(options.and_then(|options| Ok(life::start(options).map(|()| 0)?)))
}

/// It ends, for good.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_stop() -> c_int {
    done(life::stop())
}

/// It ends, and the ledger is removed.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_discard() -> c_int {
    done(life::discard())
}
