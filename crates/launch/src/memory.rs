//! How the allocator of this process gets memory from the kernel. Who works for some milliseconds asks for most of what it has given back
//! again, and the kernel takes longer to give a page than to fill it. Only of glibc's is anything asked, and nothing is lost where it refuses.

use std::ffi::c_void;

/// What is larger is asked for, and given back, by itself.
const LARGE_BYTES: i32 = 16 << 20;
/// More than this does not stay.
const KEPT_BYTES: i32 = 64 << 20;
/// Asked for at a time, beside what is needed.
const AHEAD_BYTES: i32 = 1 << 20;
/// A large page of the kernel's.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// What the allocator keeps beside a block, and more.
const BESIDE_BYTES: usize = 64;

/// Has memory that is given back stay with this process, up to some.
pub fn keep() {
    let settings =
        [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES), (libc::M_TOP_PAD, AHEAD_BYTES)];
    for (setting, value) in settings {
        // SAFETY: two numbers.
        let _ = unsafe { libc::mallopt(setting, value) };
    }
}

/// Has what the allocator hands out next lie in large pages, each of which the kernel gives in a tenth of the time that its part in small ones takes. For
/// a process that will fill a good part of one, once it [keeps](keep) its memory.
pub fn in_large_pages() {
    const BYTES: usize = 3 * LARGE_PAGE_BYTES;
    // SAFETY: a block that is given back below, and of which nothing is touched before.
    let block = unsafe { libc::malloc(BYTES) };
    let gap = block.addr().next_multiple_of(LARGE_PAGE_BYTES) - block.addr();
    let large = block.wrapping_byte_add(gap);
    // SAFETY: pages within that block, of which only is said how they are to be made.
    if !block.is_null() && unsafe { libc::madvise(large, BYTES - LARGE_PAGE_BYTES, libc::MADV_HUGEPAGE) } == 0 {
        free(block);
        // What lies before is left out: it is in small pages, and would be filled first.
        if let Some(gap) = gap.checked_sub(BESIDE_BYTES) {
            // SAFETY: a block that nobody uses and that stays.
            let _ = unsafe { libc::malloc(gap) };
        }
    } else {
        free(block);
    }
}

fn free(block: *mut c_void) {
    // SAFETY: of `malloc`, or null, and nobody else has it.
    unsafe { libc::free(block) }
}
