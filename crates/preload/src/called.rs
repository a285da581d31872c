//! Paths of the modules that we call, for the ledger.

use crate::next;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, Ordering};
use heapledger_linux::loader;

/// Paths of the modules whose `malloc` and whose `operator new` we call, and of one whose `malloc` is called before us, as far as there are
/// any; empty for the program's own file. A forked child is told what its parent found: to look again takes a good part of what beginning
/// does.
pub(crate) fn paths() -> [Option<&'static CStr>; 3] {
    /// The loader's strings: null if nobody has looked, [`NONE`] if there was none.
    static FOUND: [AtomicPtr<c_char>; 3] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 3];
    const NONE: &CStr = c"";
    if FOUND.iter().any(|found| found.load(Ordering::Acquire).is_null()) {
        for (found, module) in FOUND.iter().zip(next::modules_called()) {
            let name = module.as_ref().map_or(NONE.as_ptr(), |module| module.name().as_ptr());
            found.store(name.cast_mut(), Ordering::Release);
        }
    }
    FOUND.each_ref().map(|found| {
        let found = found.load(Ordering::Acquire);
        // Whoever has opened a library for its operators may have closed it.
        let is_there = loader::modules().any(|module| module.name().as_ptr() == found.cast_const());
        // SAFETY: the string of a module that is in the loader's list, which is asked when the process has one thread, or at start.
        is_there.then(|| unsafe { CStr::from_ptr(found) })
    })
}
