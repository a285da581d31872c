//! Live blocks as lines of libwebsockets.

use crate::error::{ApiError, answer};
use crate::output::{Output, To, written};
use crate::recording::recorder;
use core::ffi::{c_int, c_uint};
use core::fmt;
use heapledger_linux::syscall::Errno;
use heapledger_process::live_lines::{self, LineAddresses, LineForm, LinesEnd};
use heapledger_recorder::inspect::text::Writer;

/// How lines are written: bits.
pub const LINES: &[(&str, c_int)] =
    &[("COMPRESSED", 0), ("PLAIN", PLAIN as c_int), ("OF_PROGRAM", OF_PROGRAM as c_int)];

const PLAIN: c_uint = 1;
const OF_PROGRAM: c_uint = 2;

struct Gathered<'w, 'a>(&'w mut Writer<'a, To>);

impl fmt::Write for Gathered<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push(text.as_bytes());
        if self.0.is_refused() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Writes a line for each live block, oldest first; how many.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_live_lines(options: c_uint, output: *const Output) -> c_int {
    if options & !(PLAIN | OF_PROGRAM) != 0 {
        return ApiError::INVALID.0;
    }
    let form = if options & PLAIN != 0 { LineForm::Plain } else { LineForm::Compressed };
    let addresses = if options & OF_PROGRAM != 0 { LineAddresses::OfProgram } else { LineAddresses::InMemory };
    answer(recorder().and_then(|way| {
        let mut lines = Ok(0);
        let write = |writer: &mut Writer<To>| lines = live_lines::write(way, form, addresses, &mut Gathered(writer));
        // SAFETY: the caller's.
        unsafe { written(output, write) }?;
        match lines {
            Ok(lines) => Ok(u32::try_from(lines).map_or(i32::MAX as u32, |lines| lines.min(i32::MAX as u32))),
            // What the output has said was answered above.
            Err(LinesEnd::Refused) => Err(ApiError::system(Errno::IO)),
            Err(LinesEnd::NoMemory) => Err(ApiError::system(Errno::NOMEM)),
            Err(LinesEnd::Busy) => Err(ApiError::system(Errno::AGAIN)),
        }
    }))
}
