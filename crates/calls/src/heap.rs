//! What the C library says of its heap, where blocks lie in memory of the guard's own: that memory is part of it.
//!
//! `mallinfo` and `mallinfo2` (glibc 2.33) are how programs see what they have; of guarded ones glibc has nearly nothing. What it says
//! is passed on with what the guard has: memory that was used, what of it is in live blocks, and that the rest is free, or waits.

use crate::next;
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_guard::judging::OwnHeap;

/// Fields of glibc's `struct mallinfo2`, in its order.
const FIELDS: usize = 10;
/// Bytes from the system, without mappings.
const SYSTEM: usize = 0;
/// Bytes in blocks.
const IN_USE: usize = 7;
/// Bytes that nobody uses.
const FREE: usize = 8;

/// `struct mallinfo2`.
#[repr(C)]
pub(crate) struct Figures([usize; FIELDS]);

/// `struct mallinfo`, in which figures are cut off.
#[repr(C)]
pub(crate) struct SmallFigures([i32; FIELDS]);

/// Where the real ones are; 0: not looked for yet.
static REAL: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
const NONE: usize = 1;

fn real(index: usize, name: &[u8]) -> Option<usize> {
    let place = REAL.get(index)?;
    let mut address = place.load(Ordering::Relaxed);
    if address == 0 {
        address = next::find(name).max(NONE);
        place.store(address, Ordering::Relaxed);
    }
    (address != NONE).then_some(address)
}

fn own() -> OwnHeap {
    next::judging().map(|judging| judging.heap()).unwrap_or_default()
}

/// Adds what the guard has to figures of the C library.
pub(crate) fn with_own(mut figures: [usize; FIELDS], own: OwnHeap) -> [usize; FIELDS] {
    let free = own.bytes.saturating_sub(own.in_use_bytes);
    for (field, bytes) in [(SYSTEM, own.bytes), (IN_USE, own.in_use_bytes), (FREE, free)] {
        if let Some(place) = figures.get_mut(field) {
            *place = place.wrapping_add(bytes as usize);
        }
    }
    figures
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn mallinfo2() -> Figures {
    let figures = real(0, b"mallinfo2").map_or([0; FIELDS], |function| {
        // SAFETY: the C library's function of this name, which takes nothing and returns such figures.
        unsafe { transmute::<usize, extern "C" fn() -> Figures>(function)().0 }
    });
    Figures(with_own(figures, own()))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn mallinfo() -> SmallFigures {
    let figures = real(1, b"mallinfo").map_or([0; FIELDS], |function| {
        // SAFETY: as above.
        unsafe { transmute::<usize, extern "C" fn() -> SmallFigures>(function)().0 }
    });
    let figures = with_own(figures.map(|figure| figure as usize), own());
    SmallFigures(figures.map(|figure| figure as i32))
}
