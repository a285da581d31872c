//! What is answered when something is not done.
#![deny(unsafe_op_in_unsafe_fn)]

use core::ffi::{CStr, c_char, c_int};
use heapledger_linux::syscall::Errno;
use heapledger_process::depot::NotKept;
use heapledger_process::marks::NotTold;

/// An answer below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiError(pub c_int);

/// Errors of the system are so much lower than their numbers.
const SYSTEM: c_int = -1000;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl ApiError {
            $($(#[$doc])* pub const $name: ApiError = ApiError($number);)*
        }

        /// Their names, numbers and sentences.
        pub const ERRORS: &[(&str, c_int, &CStr)] = &[$((stringify!($name), $number, $text)),*];
    };
}

errors! {
    /// Nothing is recorded.
    OFF = -1, c"nothing is recorded in this process";
    /// There is no room in the ledger. That was counted.
    NO_ROOM = -2, c"the ledger has no room for it";
    /// The thread was inside of the recorder.
    BUSY = -3, c"the thread is in the middle of entering something";
    /// No such thing.
    UNKNOWN = -4, c"there is no such thing, or it is over";
    /// An argument cannot be.
    INVALID = -5, c"an argument cannot be";
    /// The functions are not there: only the header's own, of programs that look for them, answer this.
    ABSENT = -6, c"the program does not run under heapledger";
    /// A structure or buffer is too small.
    TOO_SMALL = -7, c"a structure or buffer is too small";
    /// It is so already.
    NOT_SO = -8, c"it is not so, or is so already";
    /// The C library does not tell.
    UNSUPPORTED = -9, c"the program's malloc cannot tell that";
    /// The program cannot be recorded.
    IMPOSSIBLE = -10, c"this program cannot be recorded; why was told on standard error";
    /// A heap's range may not lie there.
    OVERLAPS = -11, c"the range is that of another heap, or reaches over its edge";
}

impl ApiError {
    /// Of a number of the system's.
    pub(crate) fn system(errno: Errno) -> ApiError {
        ApiError(SYSTEM.wrapping_sub(errno.0))
    }
}

impl From<NotTold> for ApiError {
    fn from(why: NotTold) -> ApiError {
        match why {
            NotTold::Off => ApiError::OFF,
            NotTold::NoRoom => ApiError::NO_ROOM,
            NotTold::Busy => ApiError::BUSY,
            NotTold::Unknown => ApiError::UNKNOWN,
            NotTold::Invalid => ApiError::INVALID,
            NotTold::NotSo => ApiError::NOT_SO,
            NotTold::Overlaps => ApiError::OVERLAPS,
        }
    }
}

impl From<NotKept> for ApiError {
    fn from(why: NotKept) -> ApiError {
        match why {
            NotKept::Off => ApiError::OFF,
            NotKept::Full => ApiError::NO_ROOM,
            NotKept::Address => ApiError::INVALID,
            NotKept::Unknown => ApiError::UNKNOWN,
        }
    }
}

/// The answer of a function that gives a number, or 0.
pub(crate) fn answer(done: Result<u32, ApiError>) -> c_int {
    done.map_or_else(|error| error.0, |number| c_int::try_from(number).unwrap_or(ApiError::NO_ROOM.0))
}

/// A sentence on an answer below 0.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_error_text(error: c_int) -> *const c_char {
    let known = ERRORS.iter().find(|(_, number, _)| *number == error);
    let text = match known {
        Some((.., text)) => text,
        None if error >= 0 => c"no error",
        None if error < SYSTEM => c"an error of the system, whose number is -1000 minus the answer",
        None => c"an error that this version does not know",
    };
    text.as_ptr()
}
