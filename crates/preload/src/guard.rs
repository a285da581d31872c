//! Blocks that are guarded: a layer of its own between the stubs and the next allocator.
//!
//! The functions here stand in the places of the real ones ([`next::put_before`]), so that every call passes through them, whether it
//! is recorded or not: in a forked child, in a thread without a state, when recording has stopped. They ask the real allocator for more
//! than the program wants, and dress what it gives (`crates/guard`). Each block says itself whether it is dressed, by a bit of private
//! memory: so blocks from before, and those of others, go on as they came.

use crate::SHARED;
use crate::hooked::Hook;
use crate::next;
use crate::others::{self, asked};
use crate::real::{REAL, gives, gives_of_three, gives_of_two, in_glibc, is_like_a_chunk, real, stores, takes};
#[cfg(not(feature = "wrapped"))]
use crate::signals;
use core::sync::atomic::Ordering;
use heapledger_format::Kind;
use heapledger_format::errors::FoundAt;
use heapledger_guard::{Plan, Window};
#[cfg(not(feature = "wrapped"))]
use heapledger_linux::loader::modules;
use heapledger_linux::{apart, syscall};
use heapledger_process::arenas;
use heapledger_process::damage;
use heapledger_process::guarded::GUARD;
#[cfg(not(feature = "wrapped"))]
use heapledger_process::guarded::Level;
use heapledger_process::hooks::NewBlock;
use heapledger_process::ledger::PAGE_BYTES;
use heapledger_process::periodic::PERIODIC;
#[cfg(not(feature = "wrapped"))]
use heapledger_process::start;
use heapledger_process::{hooks, sweep};
use heapledger_unwind::Registers;

/// What is put before which function.
const LAYER: [(Hook, *const ()); 14] = [
    (Hook::Malloc, malloc as *const ()),
    (Hook::Calloc, calloc as *const ()),
    (Hook::Realloc, realloc as *const ()),
    (Hook::Reallocarray, reallocarray as *const ()),
    (Hook::PosixMemalign, posix_memalign as *const ()),
    (Hook::AlignedAlloc, memalign::<{ Hook::AlignedAlloc as usize }> as *const ()),
    (Hook::Memalign, memalign::<{ Hook::Memalign as usize }> as *const ()),
    (Hook::Valloc, valloc as *const ()),
    (Hook::Pvalloc, pvalloc as *const ()),
    (Hook::Free, free::<{ Hook::Free as usize }> as *const ()),
    (Hook::Cfree, free::<{ Hook::Cfree as usize }> as *const ()),
    (Hook::FreeSized, free::<{ Hook::FreeSized as usize }> as *const ()),
    (Hook::FreeAlignedSized, free::<{ Hook::FreeAlignedSized as usize }> as *const ()),
    (Hook::MallocUsableSize, malloc_usable_size as *const ()),
];

/// Of those, what is needed where one block in so many is guarded, which is put elsewhere when its call site is known
/// ([`gives_elsewhere`]): what takes blocks.
const SAMPLED: [Hook; 7] = [
    Hook::Realloc,
    Hook::Reallocarray,
    Hook::Free,
    Hook::Cfree,
    Hook::FreeSized,
    Hook::FreeAlignedSized,
    Hook::MallocUsableSize,
];

/// Alignment of what `malloc` gives.
const ALIGNMENT: usize = 16;
/// What is asked for where no alignment is: what `malloc` gives, or at closed pages what was said that it may be.
const UNASKED: usize = 1;
const WORD_BYTES: usize = size_of::<usize>();

/// Begins, if it was asked for and recording has begun.
#[cfg(not(feature = "wrapped"))]
#[cold]
pub(crate) fn begin() {
    let wanted = SHARED.settings().guard;
    if wanted.level == Level::Off || GUARD.is_on() || !hooks::follows(&SHARED) {
        return;
    }
    if !GUARD.start(&wanted) {
        start::complain(&[b"no memory for the guard: blocks are not guarded"]);
        return;
    }
    for (hook, function) in LAYER {
        let is_needed = !GUARD.is_sampled() || SAMPLED.contains(&hook);
        if let Some(real) = REAL.get(hook as usize).filter(|_| is_needed) {
            next::put_before(hook, function as usize, real);
        }
    }
    if let Some(sign) = modules().find_map(|module| module.symbol(b"__libc_single_threaded")) {
        // SAFETY: glibc's byte, which says that; its `pthread_create` clears it first. It or the program has it, and stays.
        unsafe { heapledger_guard::alone::watch(sign.address as *const u8) };
    }
    PERIODIC.start(wanted.check_every);
    next::look_who_watches();
    if GUARD.has_arena() {
        crate::judging::begin();
    }
    // SAFETY: it calls nothing of the program's nor of the C library's, and waits for nobody without bound.
    unsafe { syscall::handle_once(syscall::SIGNAL_ABORT, aborted) };
    signals::begin();
}

/// The program ends: a last look at all blocks that are still there; in a forked child that is recorded by itself at those of its
/// parent's, too, which it may have damaged. Not in other forked children, where nobody reads what is found.
#[cold]
pub(crate) fn at_exit() {
    if is_on() && hooks::follows(&SHARED) {
        last_look(FoundAt::Exit);
    }
}

/// Looks at all blocks, a last time.
pub(crate) fn last_look(at: FoundAt) {
    sweep::last(&SHARED, anywhere, at);
}

/// The program gives up, or the C library does for it: often for damage that only this look can find. Then it goes its way.
extern "C" fn aborted(_: i32) {
    apart::run(&mut || last_look(FoundAt::Signal));
    syscall::raise(syscall::SIGNAL_ABORT);
}

/// Whether blocks are guarded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    GUARD.is_on()
}

/// Whether each is.
#[inline(always)]
pub(crate) fn is_of_all() -> bool {
    GUARD.is_of_all()
}

/// Whether one new one in so many is.
#[inline(always)]
pub(crate) fn is_sampled() -> bool {
    GUARD.samples()
}

/// The heap of the guard's own memory: behind those of glibc, or behind the one of another allocator.
#[inline(always)]
fn own_heap() -> u8 {
    if next::is_glibc() { 3 } else { 1 }
}

/// The heap in which a block lies where the allocator is another one than glibc's.
pub(crate) fn heap_of_others(address: usize) -> u8 {
    if arenas::contains(address) { own_heap() } else { 0 }
}

/// Enters a block that the real allocator gave, where one in so many is guarded. Returns where it lies.
#[inline(always)]
pub(crate) fn gives_elsewhere(thread: Option<hooks::Ready>, registers: &Registers, block: &NewBlock) -> usize {
    let address = hooks::block_begins_somewhere(&SHARED, thread, registers, block, own_heap());
    if address != block.address {
        takes(real(Hook::Free), block.address);
    }
    address
}

/// Bytes that a block of the real allocator has, at least `asked`.
#[inline(always)]
fn usable(given: usize, asked: usize) -> usize {
    if next::is_glibc() {
        return in_glibc(given).0.max(asked);
    }
    next::told_size(given).max(asked)
}

/// All memory: of a block that is dressed, of which only its header says where it begins and ends, or is being dressed.
fn anywhere() -> Window {
    // SAFETY: only asked about blocks that the bitmap has, by the thread to which the program has given the block: to free it,
    // to resize it, to ask for its size; and about what the allocator has given this thread just now, before anybody has it.
    unsafe { Window::new(0, u64::MAX) }
}

/// Dresses what the real allocator gave; 0 stays 0.
#[inline(always)]
fn dress(plan: &Plan, given: usize) -> usize {
    if given == 0 {
        return 0;
    }
    let bytes = usable(given, plan.bytes() as usize);
    GUARD.dress(&anywhere(), plan, given, bytes).map_or_else(|| undressed(given), |block| GUARD.dressed(&SHARED, block))
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

/// The block is handed out as it is.
#[cold]
#[inline(never)]
fn undressed(given: usize) -> usize {
    if given != 0 {
        GUARD.count_undressed(&SHARED);
    }
    given
}

/// A block from memory of the guard's own, if there is some. What is done now and then is done first.
#[inline(always)]
fn own(size: usize, alignment: usize, zeros: bool) -> Option<usize> {
    if PERIODIC.is_on() {
        PERIODIC.tick(&SHARED);
    }
    if GUARD.has_arena() { arenas::allocate(&SHARED, size, alignment, zeros) } else { None }
}

extern "C" fn malloc(size: usize) -> usize {
    if GUARD.is_sampled() {
        return gives(next::next_of(Hook::Malloc), size);
    }
    if let Some(block) = own(size, UNASKED, false) {
        return block;
    }
    match GUARD.plan(size, ALIGNMENT) {
        Some(plan) => dress(&plan, asked(|| gives(real(Hook::Malloc), plan.bytes() as usize))),
        None => undressed(gives(real(Hook::Malloc), size)),
    }
}

extern "C" fn calloc(items: usize, item_bytes: usize) -> usize {
    if let Some(block) = items.checked_mul(item_bytes).and_then(|size| own(size, UNASKED, true)) {
        return block;
    }
    match items.checked_mul(item_bytes).and_then(|size| GUARD.plan(size, ALIGNMENT)) {
        Some(plan) => dress(&plan, asked(|| gives_of_two(real(Hook::Calloc), 1, plan.bytes() as usize))),
        None => undressed(gives_of_two(real(Hook::Calloc), items, item_bytes)),
    }
}

/// `aligned_alloc` and `memalign`.
extern "C" fn memalign<const HOOK: usize>(alignment: usize, size: usize) -> usize {
    if alignment.is_power_of_two()
        && let Some(block) = own(size, alignment, false)
    {
        return block;
    }
    let function = REAL.get(HOOK).map_or(0, |real| real.load(Ordering::Acquire));
    match GUARD.plan(size, alignment) {
        Some(plan) => dress(&plan, asked(|| gives_of_two(function, plan.alignment() as usize, plan.bytes() as usize))),
        None => undressed(gives_of_two(function, alignment, size)),
    }
}

extern "C" fn posix_memalign(place: *mut usize, alignment: usize, size: usize) -> i32 {
    if alignment.is_power_of_two()
        && alignment >= WORD_BYTES
        && let Some(block) = own(size, alignment, false)
    {
        // SAFETY: the program says where it wants it.
        unsafe { *place = block };
        return 0;
    }
    // One that is too small is refused, and would not be if it were made larger.
    let plan = GUARD.plan(size, alignment).filter(|_| alignment >= WORD_BYTES);
    let Some(plan) = plan else {
        let result = stores(real(Hook::PosixMemalign), place, alignment, size);
        if result == 0 {
            GUARD.count_undressed(&SHARED);
        }
        return result;
    };
    let mut given = 0;
    let into = &raw mut given;
    let (alignment, bytes) = (plan.alignment() as usize, plan.bytes() as usize);
    let result = asked(|| stores(real(Hook::PosixMemalign), into, alignment, bytes));
    if result == 0 {
        // SAFETY: the function has stored a block there, and the program says where it wants it.
        unsafe { *place = dress(&plan, into.read()) };
    }
    result
}

extern "C" fn valloc(size: usize) -> usize {
    in_pages(Hook::Valloc, size, Some(size))
}

extern "C" fn pvalloc(size: usize) -> usize {
    in_pages(Hook::Pvalloc, size, size.checked_next_multiple_of(PAGE_BYTES))
}

/// A block that begins with a page. The two functions are those of old programs: one function is enough for both.
fn in_pages(hook: Hook, asked: usize, size: Option<usize>) -> usize {
    if let Some(block) = size.and_then(|size| own(size, PAGE_BYTES, false)) {
        return block;
    }
    match size.and_then(|size| GUARD.plan(size, PAGE_BYTES)).filter(|_| real(Hook::Memalign) != 0) {
        Some(plan) => {
            let (alignment, bytes) = (plan.alignment() as usize, plan.bytes() as usize);
            dress(&plan, others::asked(|| gives_of_two(real(Hook::Memalign), alignment, bytes)))
        }
        None => undressed(gives(real(hook), asked)),
    }
}

/// Takes the dressing off a block that is given back; what the allocator is to have. `None`: it is not to have it.
#[inline(always)]
fn take_off(address: usize, at: FoundAt, called: Kind) -> Option<usize> {
    if !GUARD.take_off(address) {
        return unknown(address); // never dressed, or another thread was faster
    }
    match GUARD.whole(&anywhere(), address) {
        Some(block) => Some(block.given() as usize),
        None => damaged(address, at, called),
    }
}

/// What becomes of an address that is no dressed block's: a block of others goes on, and what is no block must not. The recorder has told
/// of that, and where there is none, in a forked child, a line does: the allocator, which might have, is not asked.
#[cold]
#[inline(never)]
fn unknown(address: usize) -> Option<usize> {
    let only_ours = || others::is_glibc() && others::all_call_us() && hooks::sees_all_frees(&SHARED);
    if GUARD.is_no_block(only_ours) {
        damage::say_wrong_free(&SHARED, address);
        return None;
    }
    Some(address)
}

/// Tells of damage; what the allocator is to have.
#[cold]
#[inline(never)]
fn damaged(address: usize, at: FoundAt, called: Kind) -> Option<usize> {
    let checked = GUARD.check(&anywhere(), address)?;
    damage::tell(&SHARED, &anywhere(), &checked, address, (at, called));
    if let Some(block) = checked.block {
        return Some(block.given() as usize);
    }
    // Nearly all blocks begin right in front of their header. glibc's word there says whether this one does.
    let given = address.wrapping_sub(heapledger_guard::HEADER_BYTES as usize);
    if next::is_glibc() && is_like_a_chunk(given) {
        return Some(given);
    }
    GUARD.count_kept();
    None
}

extern "C" fn free<const HOOK: usize>(address: usize) {
    let function = real(Hook::Free);
    if address != 0 {
        let called = const { crate::hooked::hooked_at(HOOK).kind };
        if arenas::contains(address) {
            arenas::free(&SHARED, address, called, FoundAt::Free);
        } else if GUARD.is_sampled() {
            takes(function, address);
        } else if let Some(given) = take_off(address, FoundAt::Free, called) {
            takes(function, given);
        }
    }
}

extern "C" fn realloc(address: usize, size: usize) -> usize {
    resize(address, size, Kind::REALLOC)
}

extern "C" fn reallocarray(address: usize, items: usize, item_bytes: usize) -> usize {
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
        damage::say_wrong_free(&SHARED, address);
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

/// Programs write as far as they are told: up to what they have asked for.
extern "C" fn malloc_usable_size(address: usize) -> usize {
    if arenas::contains(address) {
        return arenas::usable(address).unwrap_or(0);
    }
    if !GUARD.begins(address) {
        // What lies in front of what is no block, or was one of ours, is no size.
        return match (real(Hook::MallocUsableSize), unknown(address)) {
            (0, _) | (_, None) => 0,
            (function, Some(address)) => gives(function, address),
        };
    }
    GUARD.check(&anywhere(), address).and_then(|checked| checked.block).map_or(0, |block| block.size as usize)
}

/// Bytes that a block really has, where glibc's would be asked, and the row of its heap: that of the guard's own memory is behind glibc's.
#[inline(always)]
pub(crate) fn room(address: usize, size: usize) -> (usize, usize) {
    if arenas::contains(address) {
        return (arenas::actual(address, size), usize::from(own_heap()));
    }
    // Its header was written for this call, and nobody else has the block yet.
    let lead = if GUARD.begins(address) { heapledger_guard::lead_of_new(&anywhere(), address as u64) } else { 0 };
    let (bytes, is_mapped, is_elsewhere) = in_glibc(address.wrapping_sub(lead as usize));
    (bytes, if is_mapped { 2 } else { usize::from(is_elsewhere) })
}

/// What the real allocator gave for a block.
fn given(address: usize) -> usize {
    if !GUARD.begins(address) {
        return address;
    }
    GUARD.block_at(&anywhere(), address).map_or(address, |block| block.given() as usize)
}

/// What a guarded block was asked to be aligned to, 16 at least; 0 if that is not known.
#[cold]
#[inline(never)]
pub(crate) fn alignment(address: usize) -> usize {
    if arenas::contains(address) {
        return arenas::alignment(address).unwrap_or(0) as usize;
    }
    let block = Some(address).filter(|address| GUARD.begins(*address));
    block.and_then(|address| GUARD.whole(&anywhere(), address)).map_or(0, |block| block.lead as usize)
}

/// Bytes that a block has, with all that lies around it.
pub(crate) fn actual_size(address: usize) -> usize {
    if arenas::contains(address) {
        return arenas::usable(address).map_or(0, |size| arenas::actual(address, size));
    }
    next::told_size(given(address))
}
