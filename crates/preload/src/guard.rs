//! Blocks that are guarded: a layer of its own between the stubs and the next allocator.
//!
//! The functions here stand in the places of the real ones ([`next::put_before`]), so that every call passes through them, whether it
//! is recorded or not: in a forked child, in a thread without a state, when recording has stopped. They ask the real allocator for more
//! than the program wants, and dress what it gives (`crates/guard`). Each block says itself whether it is dressed, by a bit of private
//! memory: so blocks from before, and those of others, go on as they came.

mod resizing;

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
use heapledger_process::protected;
#[cfg(not(feature = "wrapped"))]
use heapledger_process::start;
use heapledger_process::{hooks, sweep};
use heapledger_unwind::Registers;
use resizing::{realloc, reallocarray};

/// What is put before which function.
const LAYER: [(Hook, *const ()); 15] = [
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
    (Hook::Mprotect, mprotect as *const ()),
];

/// Of those, what takes blocks. No more is needed where one block in so many is guarded, which is put elsewhere when its call site is known
/// ([`gives_elsewhere`]).
const TAKES: [Hook; 8] = [
    Hook::Realloc,
    Hook::Reallocarray,
    Hook::Free,
    Hook::Cfree,
    Hook::FreeSized,
    Hook::FreeAlignedSized,
    Hook::MallocUsableSize,
    Hook::Mprotect,
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
    put_layer();
    if let Some(sign) = modules().find_map(|module| module.symbol(b"__libc_single_threaded")) {
        // SAFETY: glibc's byte, which says that; its `pthread_create` clears it first. It or the program has it, and stays.
        unsafe { heapledger_guard::alone::watch(sign.address as *const u8) };
    }
    PERIODIC.start(wanted.check_every);
    next::look_who_watches();
    // SAFETY: it calls nothing of the program's nor of the C library's, and waits for nobody without bound.
    unsafe { syscall::handle_once(syscall::SIGNAL_ABORT, aborted) };
    signals::begin();
    GUARD.guards_new();
    if GUARD.has_arena() && next::is_glibc() {
        // It makes itself ready in its first call, without a lock: with threads that would be too late, when no more blocks come from here.
        takes(real(Hook::Free), gives(real(Hook::Malloc), 1));
    }
    if GUARD.has_arena() {
        crate::judging::begin();
    }
}

/// Puts the layer's functions before the allocator's: first those that take blocks, so that no thread has one that another way leads past us.
#[cfg(not(feature = "wrapped"))]
fn put_layer() {
    let needed = |takes: bool| {
        let is_needed = move |hook: &Hook| TAKES.contains(hook) == takes && (takes || !GUARD.is_sampled());
        LAYER.into_iter().filter(move |(hook, _)| is_needed(hook))
    };
    for (hook, _) in needed(true).chain(needed(false)) {
        // Before any of them is called, which may call any other one.
        if let (Some(real), Some(next)) = (REAL.get(hook as usize), next::NEXT.get(hook as usize)) {
            real.store(next.load(Ordering::Acquire), Ordering::Release);
        }
    }
    needed(true).for_each(|(hook, function)| next::put_before(hook, function as usize));
    next::look_who_watches();
    needed(false).for_each(|(hook, function)| next::put_before(hook, function as usize));
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

/// Whether a handler of signals is this one: the program had none.
pub(crate) fn is_ours(handler: usize) -> bool {
    handler == aborted as *const () as usize
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

/// The functions that take blocks, where the program may have closed some of their pages.
const OPENS: [(Hook, *const ()); 4] = [
    (Hook::Free, opens::<{ Hook::Free as usize }> as *const ()),
    (Hook::Cfree, opens::<{ Hook::Cfree as usize }> as *const ()),
    (Hook::FreeSized, opens::<{ Hook::FreeSized as usize }> as *const ()),
    (Hook::FreeAlignedSized, opens::<{ Hook::FreeAlignedSized as usize }> as *const ()),
];

extern "C" fn opens<const HOOK: usize>(address: usize) {
    open(address);
    free::<HOOK>(address);
}

/// Opens the pages of a guarded block, which the program may have closed.
#[cold]
#[inline(never)]
fn open(address: usize) {
    if arenas::contains(address) {
        return protected::open_live(address as u64);
    }
    let block = Some(address).filter(|address| GUARD.begins(*address));
    if let Some(block) = block.and_then(|address| GUARD.block_at(&anywhere(), address)) {
        protected::open(block.address, block.size);
    }
}

/// What becomes of an address that is no dressed block's: a block of others goes on, and what is no block must not. The recorder has told
/// of that, and where there is none, in a forked child, a line does: the allocator, which might have, is not asked.
#[cold]
#[inline(never)]
fn unknown(address: usize) -> Option<usize> {
    let only_ours = || others::is_glibc() && others::all_call_us() && hooks::sees_all_frees(&SHARED);
    if GUARD.is_no_block(only_ours) {
        damage::say_wrong_free(&SHARED, address, false);
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

extern "C" fn mprotect(address: usize, bytes: usize, protection: usize) -> usize {
    const READ_WRITE: usize = 3;
    if protection & READ_WRITE != READ_WRITE && protected::closes(address, bytes) {
        #[cfg(not(feature = "wrapped"))]
        OPENS.into_iter().for_each(|(hook, function)| next::put_before(hook, function as usize));
        next::look_who_watches();
    }
    gives_of_three(real(Hook::Mprotect), [address, bytes, protection])
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
