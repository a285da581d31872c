//! Blocks that are guarded, where the program asks for it: a layer of its own between the entries and the allocator inside.
//!
//! Entries call these functions in the place of the allocator's, for good, whether calls are recorded or not: in a forked child, in a
//! thread without a state, when recording has stopped. They ask the allocator inside for more than the program wants, and dress what it
//! gives (`crates/guard`); at `full` blocks come from memory of the guard's own. Each block says itself whether it is dressed, by a bit of
//! private memory: so blocks from before go on as they came.

use crate::allocator::{Gives, Heap};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use heapledger_format::Kind;
use heapledger_format::errors::FoundAt;
use heapledger_guard::{Block, HEADER_BYTES, Plan, TAIL_BYTES, Width, Window};
use heapledger_linux::{apart, syscall};
use heapledger_process::guarded::{GUARD, Level};
use heapledger_process::guarding::Guarding;
use heapledger_process::periodic::PERIODIC;
use heapledger_process::shared::SHARED;
use heapledger_process::{arenas, damage, hooks, start, sweep};
use heapledger_watch::state;

/// What is behind a block up to a multiple of it is watched as well.
const ROUNDED_TO: u64 = 16;

/// A call was passed on before the guard began: its block, if it has given one, is not dressed.
static PASSED: AtomicBool = AtomicBool::new(false);

/// A call that came at the same time as the first one of all is passed on.
pub(crate) fn note_passed() {
    PASSED.store(true, Ordering::Relaxed);
}

/// What can be had of what was asked for: nobody would take the program's faults, so no page may be closed.
pub(crate) fn without_closed_pages(wanted: Guarding) -> Guarding {
    let (level, what): (_, &[u8]) = match wanted.level {
        Level::Page => (Level::Full, b"blocks are guarded as at `full`"),
        Level::Sampled => (Level::Off, b"blocks are not guarded"),
        _ => return wanted,
    };
    start::complain(&[b"closed pages take `heapledger run`: ", what]);
    Guarding { level, ..wanted }
}

/// Begins, if it was asked for and recording has begun. `is_late`: the program has blocks already.
#[cold]
pub(crate) fn begin(is_late: bool) {
    let wanted = SHARED.settings().guard;
    if wanted.level == Level::Off || GUARD.is_on() {
        return;
    }
    if !GUARD.start(&Guarding { begins_late: is_late, ..wanted }) {
        start::complain(&[b"no memory for the guard: blocks are not guarded"]);
        return;
    }
    // Who takes blocks asks for each whether it is guarded.
    GUARD.guards_new();
    PERIODIC.start(wanted.check_every);
    // SAFETY: it calls nothing of the program's nor of the C library's, and waits for nobody without bound.
    unsafe { syscall::handle_once(syscall::SIGNAL_ABORT, aborted) };
    state::guard();
}

/// The program is about to forbid itself system calls, or may be.
pub(crate) fn stop() {
    if GUARD.is_on() {
        GUARD.makes_no_calls();
    }
}

/// The program ends: a last look at all blocks that are still there. Not in forked children, whose blocks are nearly all their parent's.
#[cold]
pub(crate) fn at_exit() {
    if GUARD.is_on() && hooks::follows(&SHARED) {
        sweep::last(&SHARED, anywhere, FoundAt::Exit);
    }
}

/// The program gives up, or the C library does for it: often for damage that only this look can find. Then it goes its way.
extern "C" fn aborted(_: i32) {
    apart::run(&mut || sweep::last(&SHARED, anywhere, FoundAt::Signal));
    syscall::raise(syscall::SIGNAL_ABORT);
}

/// Row of the heap that a block is in: that of the guard's own memory is behind the allocator's.
pub(crate) fn heap(block: usize) -> u8 {
    u8::from(arenas::contains(block))
}

/// Whether it is certain that no block begins at an address.
#[cold]
pub(crate) fn is_no_block(address: usize) -> bool {
    !arenas::contains(address) && !GUARD.begins(address) && GUARD.is_no_block(|| !PASSED.load(Ordering::Relaxed))
}

/// All memory: of a block that is dressed, of which only its header says where it begins and ends.
fn anywhere() -> Window {
    // SAFETY: only asked about blocks that the bitmap has, and only by the thread to which the program has given the block: to free or
    // resize it; or at the end, by the only thread.
    unsafe { Window::new(0, u64::MAX) }
}

/// What the allocator inside has given, and with what it was asked for.
#[derive(Clone, Copy)]
struct Given {
    address: usize,
    size: usize,
    align: usize,
}

impl Given {
    fn of(block: &Block) -> Given {
        let bytes = block.lead.wrapping_add(block.size).wrapping_add(TAIL_BYTES).wrapping_add(block.slack);
        Given { address: block.given() as usize, size: bytes as usize, align: block.lead as usize }
    }

    /// Of a block of which nothing is known but what the call says.
    fn of_plan(address: usize, plan: &Plan) -> Given {
        let (size, align) = asked(plan);
        Given { address: address.wrapping_sub(align), size, align }
    }
}

/// Size and alignment that the allocator inside is asked for.
fn asked(plan: &Plan) -> (usize, usize) {
    let bytes = plan.bytes().checked_next_multiple_of(ROUNDED_TO).unwrap_or(plan.bytes());
    (bytes as usize, plan.alignment() as usize)
}

/// A block from memory of the guard's own, if there is some. What is done now and then is done first.
fn own(size: usize, align: usize, zeros: bool) -> Option<*mut u8> {
    if PERIODIC.is_on() {
        PERIODIC.tick(&SHARED);
    }
    let address = if GUARD.has_arena() { arenas::allocate(&SHARED, size, align, zeros) } else { None };
    address.map(ptr::with_exposed_provenance_mut)
}

/// A block of the allocator inside, dressed if that can be.
///
/// # Safety
/// As of `real`, which has the allocator of this heap give a block.
unsafe fn give(heap: &Heap, size: usize, align: usize, real: Gives) -> *mut u8 {
    // SAFETY: the caller's.
    let plain = || unsafe { real(heap, size, align) };
    let Some(plan) = GUARD.plan(size, align) else { return undressed(plain()) };
    let (bytes, alignment) = asked(&plan);
    // SAFETY: a larger size and an alignment that is not smaller; both together are less than half of all addresses.
    let given = unsafe { real(heap, bytes, alignment) };
    if given.is_null() {
        return given;
    }
    let address = given.expose_provenance();
    // SAFETY: the allocator has given so many bytes, for this thread to dress before anybody has them.
    let window = unsafe { Window::new(address as u64, bytes as u64) };
    match GUARD.dress(&window, &plan, address, bytes) {
        Some(dressed) => given.with_addr(GUARD.dressed(&SHARED, dressed)),
        None => {
            // SAFETY: as it was asked for, and nobody has it.
            unsafe { heap.take(given, bytes, alignment) };
            undressed(plain())
        }
    }
}

/// The block is handed out as it is.
#[cold]
#[inline(never)]
fn undressed(block: *mut u8) -> *mut u8 {
    if !block.is_null() {
        GUARD.count_undressed(&SHARED);
    }
    block
}

/// Takes the dressing off a block that is given back with what is said of it; what the allocator is to have. `None`: it is not to have it.
fn take_off(address: usize, said: (usize, usize), at: FoundAt, called: Kind) -> Option<Given> {
    if !GUARD.take_off(address) {
        return unknown(address, said); // never dressed, or another thread was faster
    }
    match GUARD.whole(&anywhere(), address) {
        Some(block) => Some(Given::of(&block)),
        None => damaged(address, said, at, called),
    }
}

/// What becomes of an address that is no dressed block's: a block from before goes on, and what is no block must not.
#[cold]
#[inline(never)]
fn unknown(address: usize, (size, align): (usize, usize)) -> Option<Given> {
    if is_no_block(address) {
        damage::say_wrong_free(&SHARED, address, false);
        return None;
    }
    Some(Given { address, size, align })
}

/// Tells of damage; what the allocator is to have.
#[cold]
#[inline(never)]
fn damaged(address: usize, (size, align): (usize, usize), at: FoundAt, called: Kind) -> Option<Given> {
    let checked = GUARD.check(&anywhere(), address)?;
    damage::tell(&SHARED, &anywhere(), &checked, address, (at, called));
    if let Some(block) = checked.block {
        return Some(Given::of(&block));
    }
    // Its header is lost; but the call says with what it was asked for.
    let plan = Plan::new(Width::Bits64, size as u64, align as u64);
    if plan.is_none() {
        GUARD.count_kept();
    }
    plan.map(|plan| Given::of_plan(address, &plan))
}

/// Takes a block back.
///
/// # Safety
/// As of `GlobalAlloc::dealloc`.
unsafe fn take(heap: &Heap, block: *mut u8, said: (usize, usize), at: FoundAt, called: Kind) {
    let address = block.addr();
    if arenas::contains(address) {
        arenas::free(&SHARED, address, called, at);
    } else if let Some(given) = take_off(address, said, at, called) {
        // SAFETY: the block that the allocator has given, with what it was asked for.
        unsafe { heap.take(block.with_addr(given.address), given.size, given.align) }
    }
}

/// `GlobalAlloc::alloc`, as [`crate::entry`] calls it.
///
/// # Safety
/// As of that. `real` calls it for this heap.
pub(crate) unsafe extern "C-unwind" fn alloc(heap: &Heap, size: usize, align: usize, real: Gives) -> *mut u8 {
    // SAFETY: the caller's.
    own(size, align, false).unwrap_or_else(|| unsafe { give(heap, size, align, real) })
}

/// `GlobalAlloc::alloc_zeroed`.
///
/// # Safety
/// As of `alloc`.
pub(crate) unsafe extern "C-unwind" fn alloc_zeroed(heap: &Heap, size: usize, align: usize, real: Gives) -> *mut u8 {
    // SAFETY: the caller's.
    own(size, align, true).unwrap_or_else(|| unsafe { give(heap, size, align, real) })
}

/// `GlobalAlloc::dealloc`.
///
/// # Safety
/// As of that.
pub(crate) unsafe extern "C-unwind" fn dealloc(heap: &Heap, block: *mut u8, size: usize, align: usize) {
    // SAFETY: the caller's.
    unsafe { take(heap, block, (size, align), FoundAt::Free, Kind::RUST_DEALLOC) }
}

/// `GlobalAlloc::realloc`. The block always moves: only of a new one is it known that it can be dressed before the old one is gone.
///
/// # Safety
/// As of that.
pub(crate) unsafe extern "C-unwind" fn realloc(
    heap: &Heap,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let Some(old) = bytes_of(block.addr(), size) else {
        damage::say_wrong_free(&SHARED, block.addr(), true);
        return ptr::null_mut();
    };
    // SAFETY: the caller's; the alignment stays.
    let new = own(new_size, align, false).unwrap_or_else(|| unsafe { give(heap, new_size, align, heap.gives) });
    if !new.is_null() {
        // SAFETY: the old block has so many bytes and so has the new one, and they are two.
        unsafe { ptr::copy_nonoverlapping(block, new, old.min(new_size)) };
        // SAFETY: the caller's.
        unsafe { take(heap, block, (size, align), FoundAt::Realloc, Kind::RUST_REALLOC) };
    }
    new
}

/// Bytes that a block was asked for, which the call says has `said`. `None` if it is certain that none begins there.
fn bytes_of(address: usize, said: usize) -> Option<usize> {
    if arenas::contains(address) {
        return arenas::usable(address);
    }
    if GUARD.begins(address) {
        let block = GUARD.check(&anywhere(), address).and_then(|checked| checked.block);
        return Some(block.map_or(said, |block| block.size as usize));
    }
    (!is_no_block(address)).then_some(said)
}

const _: () = assert!(HEADER_BYTES == ROUNDED_TO, "a block's begin is as far from what was given as its lead says");
