//! Marks, scopes and labels.

use crate::error::{ApiError, answer};
use crate::recording::recorder;
use crate::text::text;
use core::ffi::{c_char, c_int};
use heapledger_format::LabelId;
use heapledger_format::mark::MarkKind;
use heapledger_process::marks::NewMark;

/// # Safety
/// The name must be a text.
unsafe fn mark(kind: MarkKind, name: *const c_char, of_own_thread: bool) -> Result<u32, ApiError> {
    // SAFETY: the caller's.
    let name = unsafe { text(name) }?;
    Ok(recorder()?.mark(&NewMark { kind, name, about: 0, of_own_thread })?)
}

/// Names this moment.
///
/// # Safety
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_mark(name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { mark(MarkKind::Mark, name, false) }.map(|_| 0))
}

/// Names this moment of the calling thread.
///
/// # Safety
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_mark_thread(name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { mark(MarkKind::Mark, name, true) }.map(|_| 0))
}

/// A part of the program begins; gives its number.
///
/// # Safety
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_scope_begin(name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { mark(MarkKind::ScopeBegins, name, false) })
}

/// It ends.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_scope_end(scope: c_int) -> c_int {
    let end = |about| {
        let new = NewMark { kind: MarkKind::ScopeEnds, name: b"", about, of_own_thread: false };
        Ok(recorder()?.mark(&new).map(|_| 0)?)
    };
    answer(number(scope).and_then(end))
}

/// A number that some function has given.
pub(crate) fn number(given: c_int) -> Result<u32, ApiError> {
    u32::try_from(given).map_err(|_| ApiError::INVALID)
}

/// The number of a label.
///
/// # Safety
/// Key and value must be texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_label(parent: c_int, key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let texts = unsafe { text(key).and_then(|key| Ok((key, text(value)?))) };
    let label = |(key, value)| Ok(recorder()?.label(LabelId(number(parent)?), key, value)?.0);
    answer(texts.and_then(label))
}

/// What the calling thread allocates from now on has this label; gives the one before.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_label_set(label: c_int) -> c_int {
    answer(number(label).and_then(|label| Ok(recorder()?.put_in_force(LabelId(label))?.0)))
}

/// The label in force in the calling thread; 0: none.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_label_now() -> c_int {
    answer(recorder().map(|way| way.in_force().0))
}
