//! The next allocator's functions, as the guard's layer calls them that stands before them; and what glibc's blocks tell of themselves.

use crate::hooked::{HOOKED, Hook};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of what `malloc` gives.
const ALIGNMENT: usize = 16;
const WORD_BYTES: usize = size_of::<usize>();

/// The real functions; 0 where nothing was put before them.
pub(crate) static REAL: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];

/// The real function; 0 if nothing was put before it.
pub(crate) fn real(hook: Hook) -> usize {
    REAL.get(hook as usize).map_or(0, |real| real.load(Ordering::Acquire))
}

// SAFETY of all of these: the function is the next allocator's of that name and shape, which was there before this layer was put before
// it; its arguments are the program's, or what the layer makes of them.

#[inline(always)]
pub(crate) fn gives(function: usize, first: usize) -> usize {
    // SAFETY: above.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> usize>(function)(first) }
}

#[inline(always)]
pub(crate) fn gives_of_two(function: usize, first: usize, second: usize) -> usize {
    // SAFETY: above.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize, usize) -> usize>(function)(first, second) }
}

#[inline(always)]
pub(crate) fn gives_of_three(function: usize, [first, second, third]: [usize; 3]) -> usize {
    // SAFETY: above.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(usize, usize, usize) -> usize>(function)(first, second, third)
    }
}

#[inline(always)]
pub(crate) fn stores(function: usize, place: *mut usize, alignment: usize, size: usize) -> i32 {
    // SAFETY: above.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(*mut usize, usize, usize) -> i32>(function)(place, alignment, size)
    }
}

#[inline(always)]
pub(crate) fn takes(function: usize, block: usize) {
    // SAFETY: above.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize)>(function)(block) }
}

/// glibc's word in front of a block: bytes that it has, and whether it lies in a mapping of its own, or outside of the first heap.
#[inline(always)]
pub(crate) fn in_glibc(given: usize) -> (usize, bool, bool) {
    const MAPPED: usize = 2;
    const NOT_MAIN_ARENA: usize = 4;
    const FLAGS: usize = 7;
    // SAFETY: a block that glibc gave has a chunk header in front of it.
    let header = unsafe { *(given as *const usize).wrapping_sub(1) };
    let (chunk, is_mapped) = (header & !FLAGS, header & MAPPED != 0);
    let own = if is_mapped { 2 * WORD_BYTES } else { WORD_BYTES };
    (chunk.wrapping_sub(own), is_mapped, header & NOT_MAIN_ARENA != 0)
}

/// Whether glibc could have given a block here.
pub(crate) fn is_like_a_chunk(given: usize) -> bool {
    const BYTES_MAX: usize = 1 << 40;
    let (bytes, is_mapped, _) = in_glibc(given);
    let is_aligned = bytes % ALIGNMENT == if is_mapped { 0 } else { WORD_BYTES };
    is_aligned && (3 * WORD_BYTES..BYTES_MAX).contains(&bytes) && !is_mapped
}
