//! glibc's `_dl_find_object`, and what a static program's C library has that no list of modules tells of.

use super::debug_list::LinkMap;
use core::arch::asm;

/// What `_dl_find_object` tells of a code address.
#[repr(C)]
pub(super) struct FoundObject {
    pub(super) flags: u64,
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) map: *const LinkMap,
    pub(super) eh_frame_header: usize,
    reserved: [u64; 7],
}

type DlFindObject = unsafe extern "C" fn(usize, *mut FoundObject) -> i32;

/// Asks glibc's function, if that is known.
pub(super) fn ask(function: usize, address: usize) -> Option<FoundObject> {
    if function == 0 {
        return None;
    }
    let mut found =
        FoundObject { flags: 0, low: 0, high: 0, map: core::ptr::null(), eh_frame_header: 0, reserved: [0; 7] };
    // SAFETY: the address is that of `_dl_find_object`, which takes any address and fills the structure.
    let status = unsafe { core::mem::transmute::<usize, DlFindObject>(function)(address, &mut found) };
    (status == 0 && !found.map.is_null()).then_some(found)
}

/// Where the C library of a static program has `_dl_find_object`, which no list tells; 0 if it has none.
pub(super) fn finder_of_static() -> usize {
    let function: usize;
    // SAFETY: loads an address from our own table; 0 if nobody defines it.
    unsafe {
        asm!(
            ".weak _dl_find_object",
            "mov {}, qword ptr [rip + _dl_find_object@GOTPCREL]",
            out(reg) function, options(nostack, preserves_flags, readonly)
        );
    }
    function
}

/// Where it keeps the end of the first stack; 0 if it does not.
pub(super) fn stack_end_of_static() -> usize {
    let place: usize;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".weak __libc_stack_end",
            "mov {}, qword ptr [rip + __libc_stack_end@GOTPCREL]",
            out(reg) place, options(nostack, preserves_flags, readonly)
        );
    }
    place
}
