//! A library's own allocator, instrumented: each block knows who asked for it, and the lines of all that live go to standard
//! output. `cargo run -p heapledger-metadata --example instrumented | heapledger heapmap -`

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;

use heapledger_metadata::{Owner, Prepared};

/// All blocks of the library that live.
static LIVE: Mutex<Owner> = Mutex::new(Owner::new(None));

/// What the library called `malloc` for. A C library would take the frames from its compiler's unwinder.
fn library_alloc(frames: &[u64], size: usize) -> Option<(NonNull<u8>, Layout)> {
    let prepared = Prepared::new(frames, size);
    let layout = Layout::from_size_align(size.checked_add(prepared.extra())?, 16).ok()?;
    // SAFETY: the layout has a size.
    let start = NonNull::new(unsafe { alloc(layout) })?;
    let live = LIVE.lock().ok()?;
    // SAFETY: so many bytes more were asked for, and the list is a static.
    Some((unsafe { live.adjust(start, &prepared) }, layout))
}

fn library_free((user, layout): (NonNull<u8>, Layout)) {
    let Ok(_held) = LIVE.lock() else { return };
    // SAFETY: the block is one of the list, whose lock is held.
    unsafe { dealloc(Owner::trim(user).as_ptr(), layout) }
}

fn main() {
    let callers = [[0x401136, 0x401153], [0x401200, 0x401153], [0x401136, 0x401300]];
    let blocks = (0..30).filter_map(|index| library_alloc(&callers[index % 3], 10 + index * 7));
    for (index, block) in blocks.enumerate().collect::<Vec<_>>() {
        if index % 4 == 0 {
            library_free(block);
        }
    }
    let mut text = String::new();
    if let Ok(live) = LIVE.lock()
        && live.write_compressed(&mut text).is_ok()
    {
        print!("{text}");
    }
}
