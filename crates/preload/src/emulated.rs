//! Members of the family that the next allocator does not have, made from those that it has.
//!
//! We export all of them, so a program that asks whether `free_sized` exists finds it.

use crate::hooked::Hook;
use crate::next::{errno_location, next_of};

/// Where a call goes whose function does not exist anywhere.
pub(crate) const NOTHING: usize = 0;

const ENOMEM: i32 = 12;

/// Does nothing, and gives nothing.
pub(crate) extern "C" fn nothing() -> usize {
    0
}

extern "C" fn reallocarray(block: usize, items: usize, item_bytes: usize) -> usize {
    let Some(bytes) = items.checked_mul(item_bytes) else {
        set_errno(ENOMEM);
        return 0;
    };
    // SAFETY: `realloc` of the next allocator, with the program's own block.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize, usize) -> usize>(next_of(Hook::Realloc))(block, bytes) }
}

extern "C" fn free(block: usize) {
    // SAFETY: `free` of the next allocator, with the program's own block.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize)>(next_of(Hook::Free))(block) }
}

extern "C" fn new_aligned(bytes: usize, align: usize) -> usize {
    // SAFETY: `memalign` of the next allocator.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(usize, usize) -> usize>(next_of(Hook::Memalign))(align, bytes)
    }
}

extern "C" fn delete(block: usize) {
    free(block);
}

fn set_errno(error: i32) {
    let location = errno_location();
    if location != 0 {
        // SAFETY: the C library's function, which returns the calling thread's `errno`.
        unsafe { *core::mem::transmute::<usize, extern "C" fn() -> *mut i32>(location)() = error };
    }
}

fn address(function: *const ()) -> usize {
    function as usize
}

/// A member that can be made from the others of the same family.
pub(crate) fn from_family(hook: usize) -> Option<usize> {
    const REALLOCARRAY: usize = Hook::Reallocarray as usize;
    const CFREE: usize = Hook::Cfree as usize;
    const FREE_SIZED: usize = Hook::FreeSized as usize;
    const FREE_ALIGNED_SIZED: usize = Hook::FreeAlignedSized as usize;
    match hook {
        REALLOCARRAY => Some(address(reallocarray as *const ())),
        // The sizes are only hints.
        CFREE | FREE_SIZED | FREE_ALIGNED_SIZED => Some(address(free as *const ())),
        _ => None,
    }
}

fn is_aligned_new(hook: usize) -> bool {
    const ALIGNED: [Hook; 4] = [Hook::NewAlign, Hook::NewArrayAlign, Hook::NewAlignNothrow, Hook::NewArrayAlignNothrow];
    ALIGNED.iter().any(|aligned| *aligned as usize == hook)
}

/// What is called if there is no definition at all: C++ operators in a process without C++.
pub(crate) fn otherwise(hook: usize) -> usize {
    if hook == Hook::Malloc as usize || hook == Hook::Free as usize {
        return address(nothing as *const ()); // the others are made of these
    }
    let shape = crate::hooked::HOOKED.get(hook).map(|hooked| hooked.shape);
    match shape {
        Some(crate::hooked::Shape::Frees) => address(delete as *const ()),
        Some(crate::hooked::Shape::Block(0)) if is_aligned_new(hook) => address(new_aligned as *const ()),
        Some(crate::hooked::Shape::Block(0)) => next_of(Hook::Malloc),
        _ => address(nothing as *const ()),
    }
}
