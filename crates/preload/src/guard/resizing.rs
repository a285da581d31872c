//! `realloc` where blocks are guarded.

use super::{ALIGNMENT, anywhere, malloc, open, take_off, undressed, unknown, usable};
use crate::SHARED;
use crate::hooked::Hook;
use crate::next;
use crate::others::asked;
use crate::real::{gives_of_three, gives_of_two, real, takes};
use heapledger_format::Kind;
use heapledger_format::errors::FoundAt;
use heapledger_guard::Plan;
use heapledger_process::arenas;
use heapledger_process::damage;
use heapledger_process::guarded::GUARD;
use heapledger_process::protected;

pub(super) extern "C" fn realloc(address: usize, size: usize) -> usize {
    resize(address, size, Kind::REALLOC)
}

pub(super) extern "C" fn reallocarray(address: usize, items: usize, item_bytes: usize) -> usize {
    match items.checked_mul(item_bytes) {
        Some(size) => resize(address, size, Kind::REALLOCARRAY),
        // Refused before the block is looked at.
        None => gives_of_three(real(Hook::Reallocarray), [address, items, item_bytes]),
    }
}

#[inline(never)]
fn resize(address: usize, size: usize, called: Kind) -> usize {
    if address == 0 {
        return malloc(size);
    }
    if protected::are_some() {
        open(address);
    }
    if arenas::contains(address) {
        return move_away(address, size, called);
    }
    if GUARD.is_sampled() {
        return gives_of_two(real(Hook::Realloc), address, size);
    }
    if !GUARD.begins(address) {
        // A block of others stays as it is.
        return unknown(address).map_or(0, |address| gives_of_two(real(Hook::Realloc), address, size));
    }
    if size == 0 && next::is_glibc() {
        if let Some(given) = take_off(address, FoundAt::Realloc, called) {
            takes(real(Hook::Free), given);
        }
        return 0;
    }
    let plan = GUARD.plan(size, ALIGNMENT);
    if plan.is_none() && GUARD.dresses() {
        // So much nobody has: the block is as it was.
        return gives_of_two(real(Hook::Realloc), 0, size);
    }
    // An allocator need not tell how long its blocks are, and programs write no further than they have asked for.
    let asked_before = GUARD.whole(&anywhere(), address).map(|block| block.size as usize);
    let Some(given) = take_off(address, FoundAt::Realloc, called) else { return 0 };
    let lead = address.wrapping_sub(given);
    let bytes = asked_before.unwrap_or_else(|| usable(given, lead).wrapping_sub(lead)).min(size);
    if let Some(plan) = plan.filter(|_| lead == heapledger_guard::HEADER_BYTES as usize) {
        let new = asked(|| gives_of_two(real(Hook::Realloc), given, plan.bytes() as usize));
        if new == 0 {
            GUARD.put_back(address);
            return 0;
        }
        return dress_again(&plan, new, bytes);
    }
    // The real function would keep neither the lead nor the alignment; or new blocks are not dressed any more.
    let new = malloc(size);
    if new == 0 {
        GUARD.put_back(address);
        return 0;
    }
    // SAFETY: the old block has so many bytes behind its lead and the new one `size`, and they are two.
    unsafe { core::ptr::copy_nonoverlapping(address as *const u8, new as *mut u8, bytes) };
    takes(real(Hook::Free), given);
    new
}

/// A block of the guard's own memory is resized: it always moves, so that what still points to it is found out.
fn move_away(address: usize, size: usize, called: Kind) -> usize {
    let Some(old) = arenas::usable(address) else {
        damage::say_wrong_free(&SHARED, address, true);
        return 0;
    };
    let new = if size == 0 && next::is_glibc() { 0 } else { malloc(size) };
    if new == 0 && size != 0 {
        return 0;
    }
    if new != 0 {
        // SAFETY: the old block has so many bytes and so has the new one, and they are two.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, new as *mut u8, old.min(size)) };
    }
    arenas::free(&SHARED, address, called, FoundAt::Realloc);
    new
}

/// The same of what the real `realloc` gave, which has moved the block's bytes together with what lay in front of them.
fn dress_again(plan: &Plan, given: usize, kept: usize) -> usize {
    let bytes = usable(given, plan.bytes() as usize);
    GUARD.dress(&anywhere(), plan, given, bytes).unwrap_or_else(|| {
        let moved = given.wrapping_add(heapledger_guard::HEADER_BYTES as usize);
        // SAFETY: the block was asked for with so many bytes behind its header. Nobody has it yet.
        unsafe { core::ptr::copy(moved as *const u8, given as *mut u8, kept) };
        undressed(given)
    })
}
