//! Where the loader keeps its list of modules, for debuggers: in `_r_debug` of glibc, elsewhere under musl, and noted in the
//! executable by both.

use super::dynamic::find_in_dynamic;
use crate::process;
use core::arch::asm;
use core::ffi::c_char;

#[repr(C)]
pub(super) struct DebugList {
    pub(super) version: i32,
    pub(super) first: *const LinkMap,
}

#[repr(C)]
pub(super) struct LinkMap {
    pub(super) bias: usize,
    pub(super) name: *const c_char,
    pub(super) dynamic: *const [usize; 2],
    pub(super) next: *const LinkMap,
}

#[repr(C)]
pub(super) struct ProgramHeader {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: usize,
    pub(super) address: usize,
    pub(super) physical: usize,
    pub(super) file_bytes: usize,
    pub(super) memory_bytes: usize,
    pub(super) align: usize,
}

/// The list's head, a variable of the dynamic loader; null if there is no loader.
pub(super) fn debug_list() -> *const DebugList {
    let list: *const DebugList;
    // SAFETY: loads the address of the loader's `_r_debug` from our own table; 0 if there is none.
    unsafe {
        asm!(
            ".weak _r_debug",
            "mov {}, qword ptr [rip + _r_debug@GOTPCREL]",
            out(reg) list, options(nostack, preserves_flags, readonly)
        );
    }
    if list.is_null() { list_of_musl() } else { list }
}

/// The first module of the list; null if there is no loader. (A static program has the variable, and mostly nothing in it.)
pub(super) fn first_listed() -> *const LinkMap {
    let list = debug_list();
    // SAFETY: `_r_debug` is valid for the life of the process.
    if list.is_null() { core::ptr::null() } else { unsafe { (*list).first } }
}

/// The same of musl's loader, which exports where its list is noted.
#[cold]
fn list_of_musl() -> *const DebugList {
    let place: *const *const DebugList;
    // SAFETY: as in `debug_list`.
    unsafe {
        asm!(
            ".weak _dl_debug_addr",
            "mov {}, qword ptr [rip + _dl_debug_addr@GOTPCREL]",
            out(reg) place, options(nostack, preserves_flags, readonly)
        );
    }
    // SAFETY: a variable of the loader, valid for the life of the process.
    if place.is_null() { noted_in_executable() } else { unsafe { *place } }
}

/// Where no loader's symbol is to be seen, in a namespace of its own (`dlmopen`): every loader notes its list in the
/// executable, for debuggers.
#[cold]
fn noted_in_executable() -> *const DebugList {
    const PT_DYNAMIC: u32 = 2;
    const PT_PHDR: u32 = 6;
    const DT_DEBUG: usize = 21;
    const HEADERS_MAX: usize = 64;
    let headers = process::program_headers() as *const ProgramHeader;
    // SAFETY: the kernel says where the executable's headers lie. They begin with the one that describes them and, in
    // executables that a loader starts, have one for the dynamic section: nothing behind that one is read.
    let noted = unsafe {
        if headers.is_null() || (*headers).kind != PT_PHDR {
            return core::ptr::null();
        }
        let bias = (headers as usize).wrapping_sub((*headers).address);
        let mut all = (0..HEADERS_MAX).map(|index| &*headers.add(index));
        let dynamic = all.find(|header| header.kind == PT_DYNAMIC);
        dynamic.and_then(|dynamic| find_in_dynamic(bias.wrapping_add(dynamic.address) as *const _, DT_DEBUG))
    };
    noted.unwrap_or(0) as *const DebugList
}
