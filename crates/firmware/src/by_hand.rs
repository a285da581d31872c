//! Blocks of allocators that the linker does not lead here: their functions tell of them.
//!
//! # Safety
//! A room with `unsafe`: C calls these, and says where something is to be stored.

use core::mem::MaybeUninit;

#[cfg(not(feature = "fixed"))]
use heapledger::chip::build_id_in_note;
use heapledger::chip::{Address, InRealloc, Kind};

#[cfg(not(feature = "fixed"))]
use crate::board::told;
use crate::entering::{begin, end, is_live, refused, resized as was_resized, resizing};
use crate::layouts::{Given, Resized};
use crate::stub::{Pushed, stub};

/// The block is not in the ledger: there was no room, or it is in the middle of an update. That was counted.
const NO_ROOM: i32 = -2;
/// No block begins there that is in the ledger.
const UNKNOWN: i32 = -4;
/// An argument cannot be.
const INVALID: i32 = -5;

/// What C keeps while a block is resized: `struct heapledger_resize`.
type Kept = MaybeUninit<Option<InRealloc<Address>>>;

// The header has room for so much.
const _: () = assert!(size_of::<Kept>() <= 24 && align_of::<Kept>() <= 4);

fn answer(is_so: bool, otherwise: i32) -> i32 {
    if is_so { 0 } else { otherwise }
}

/// A function by its number, in a heap by its number; below 0: the one where its address lies.
fn given(kind: usize, heap: usize) -> Given {
    let kind = if kind == 0 { Kind::POOL_ALLOC } else { Kind(kind as u8) };
    Given::of(kind, if (heap as isize) < 0 { None } else { Some(heap as u8) })
}

fn ended_by(kind: usize) -> Kind {
    if kind == 0 { Kind::POOL_FREE } else { Kind(kind as u8) }
}

/// There is nothing to be told.
static NOTHING: u32 = 0;

stub!(heapledger_allocated, allocated, NOTHING);
stub!(heapledger_freed, freed, NOTHING);
stub!(heapledger_resized, resized, NOTHING);

#[inline(never)]
extern "C" fn allocated(pushed: &Pushed, _: &u32) -> i32 {
    let [heap, block, bytes, kind] = pushed.arguments;
    if block == 0 {
        return INVALID;
    }
    // (Asked here, so that what is called most often need not answer.)
    answer(is_live(begin(given(kind, heap), block as Address, bytes as Address, pushed.frame())), NO_ROOM)
}

#[inline(never)]
extern "C" fn freed(pushed: &Pushed, _: &u32) -> i32 {
    let [block, kind, ..] = pushed.arguments;
    if block == 0 {
        return INVALID;
    }
    answer(end(ended_by(kind), block as Address, pushed.frame()), UNKNOWN)
}

/// # Safety
/// There is room for what is kept.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_resizing(block: usize, kept: *mut Kept) -> i32 {
    if block == 0 || kept.is_null() {
        return INVALID;
    }
    let known = resizing(block as Address);
    // SAFETY: the caller's promise.
    unsafe { (*kept).write(known) };
    answer(known.is_some(), UNKNOWN)
}

#[inline(never)]
extern "C" fn resized(pushed: &Pushed, _: &u32) -> i32 {
    let [kept, heap, block, bytes] = pushed.arguments;
    if kept == 0 {
        return INVALID;
    }
    // SAFETY: what `heapledger_resizing` has stored there, as the caller promises.
    let kept = unsafe { (*core::ptr::with_exposed_provenance::<Kept>(kept)).assume_init() };
    // SAFETY: it has five arguments.
    let kind = unsafe { pushed.fifth() };
    let (block, bytes) = (block as Address, bytes as Address);
    let how = Resized { kept, given: given(kind, heap), block, bytes };
    answer(was_resized(&how, pushed.frame()) || block == 0, NO_ROOM)
}

/// An allocator had no block.
#[unsafe(no_mangle)]
extern "C" fn heapledger_refused() -> i32 {
    refused();
    0
}

/// Says of which build the firmware is, as the linker's note has it: `build_id=` and hexadecimal digits, where there are zeros. What there is no
/// room for is left out, and so is all if there is no such note.
///
/// # Safety
/// There is room for so many bytes.
#[cfg(not(feature = "fixed"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_say_build_id(to: *mut u8, vacant: usize) {
    const KEY: &[u8] = b"build_id=";
    let id = build_id_in_note(told().build_note());
    // SAFETY: the caller's promise.
    let room = unsafe { core::slice::from_raw_parts_mut(to, vacant) };
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let letters = digits.map(|digit| if digit < 10 { digit.wrapping_add(b'0') } else { digit.wrapping_add(b'a' - 10) });
    if !id.is_empty() {
        // Behind it there is a zero.
        let places = room.iter_mut().take(vacant.saturating_sub(1));
        places.zip(KEY.iter().copied().chain(letters)).for_each(|(place, letter)| *place = letter);
    }
}
