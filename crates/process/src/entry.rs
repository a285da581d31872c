//! Our own code: where the program's calls come in.
//!
//! A library of hooks puts its entry points, and what else calls the recorder from outside, into the section
//! `heapledger_entry` (`#[unsafe(link_section = "heapledger_entry")]`), whose ends the linker knows. A hook that is under way has
//! a frame there, as long as it does not leave by a jump instead of a last call. So it is known in a program that the recorder
//! is linked into, too, where the module that holds it is the whole program.

use core::arch::global_asm;
use core::ops::Range;

// The section is there, and has ends, even where nobody puts anything into it: a linker that drops what nobody refers to keeps it.
global_asm!(
    ".pushsection heapledger_entry,\"axR\",@progbits,unique,1",
    "ud2",
    ".popsection",
    ".hidden __start_heapledger_entry",
    ".hidden __stop_heapledger_entry",
);

unsafe extern "C" {
    /// Its first byte, and what follows its last: the linker's symbols.
    static __start_heapledger_entry: u8;
    static __stop_heapledger_entry: u8;
}

/// Where the entry points lie.
#[inline(always)]
pub fn code() -> Range<usize> {
    &raw const __start_heapledger_entry as usize..&raw const __stop_heapledger_entry as usize
}
