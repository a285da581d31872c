//! Where text goes that is printed: a function of the program's, or a descriptor.

use crate::error::ApiError;
use core::ffi::{c_char, c_int, c_void};
use heapledger_linux::syscall::{self, Errno};
use heapledger_recorder::inspect::text::{Sink, Writer};

/// Takes a piece of text; below 0: no more of it.
pub type WriteFn = unsafe extern "C" fn(to: *mut c_void, text: *const c_char, bytes: usize) -> c_int;

/// Where text goes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Output {
    /// Its own size.
    pub size: usize,
    /// Who takes it; null: it goes to the descriptor.
    pub write: Option<WriteFn>,
    /// What that is called with.
    pub to: *mut c_void,
    /// A file's number.
    pub descriptor: c_int,
}

const _: () = assert!(size_of::<Output>() == 32, "a later version has its first size in a constant");

const STANDARD: Output = Output { size: size_of::<Output>(), write: None, to: core::ptr::null_mut(), descriptor: 1 };

pub(crate) struct To {
    output: Output,
    failed: Option<ApiError>,
}

impl Sink for To {
    fn take(&mut self, text: &[u8]) -> bool {
        let Output { write, to, descriptor, .. } = self.output;
        self.failed = match write {
            // SAFETY: who has given the function promises that it can be called so.
            Some(write) if unsafe { write(to, text.as_ptr().cast(), text.len()) } < 0 => {
                Some(ApiError::system(Errno::IO))
            }
            Some(_) => None,
            None => all_written(descriptor, text).err(),
        };
        self.failed.is_none()
    }
}

fn all_written(descriptor: c_int, mut text: &[u8]) -> Result<(), ApiError> {
    let descriptor = usize::try_from(descriptor).map_err(|_| ApiError::INVALID)?;
    while !text.is_empty() {
        match syscall::write(descriptor, text) {
            Ok(0) => return Err(ApiError::system(Errno::IO)),
            Ok(bytes) => text = text.get(bytes..).unwrap_or(&[]),
            Err(why) => return Err(ApiError::system(why)),
        }
    }
    Ok(())
}

/// Has something written to an output; null: the standard output.
///
/// # Safety
/// An output must be there, as large as it says, or null.
pub(crate) unsafe fn written(output: *const Output, write: impl FnOnce(&mut Writer<To>)) -> Result<u32, ApiError> {
    let output = if output.is_null() {
        STANDARD
    } else {
        // SAFETY: the caller's; the size comes first, and whatever is smaller than it says is not read.
        let size = unsafe { output.cast::<usize>().read() };
        if size < size_of::<Output>() {
            return Err(ApiError::TOO_SMALL);
        }
        // SAFETY: as above.
        unsafe { output.read() }
    };
    let mut to = To { output, failed: None };
    let mut writer = Writer::new(&mut to);
    write(&mut writer);
    writer.end();
    to.failed.map_or(Ok(0), Err)
}
