//! What a call means: from arguments and results to the recorder's words.

use crate::SHARED;
use crate::hooked::{Family, HOOKED, Hooked, Shape};
use crate::next;
use crate::stubs::CallFrame;
use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_recorder::linux::hooks::{self, NewBlock, Reallocation};
use heapledger_recorder::linux::start::{self, Hooks};

const GLIBC_HEAPS: &[&[u8]] = &[b"brk heap", b"arenas", b"large mappings"];

/// Starts recording at the first call of all.
#[inline(always)]
pub(crate) fn ensure_started() {
    if start::is_unstarted(&SHARED) {
        begin();
    }
}

#[cold]
fn begin() {
    // Finds the next allocator first: whoever passes through while recording starts needs it.
    next::next(crate::hooked::Hook::Malloc as usize);
    find_own_code();
    let name = next::c_module_name();
    let basename = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(b"heap");
    let other = [basename];
    let heaps = if next::is_glibc() { GLIBC_HEAPS } else { &other[..] };
    let on = start::start(&SHARED, &Hooks { next: name, cxx: next::cxx_module_name(), heaps });
    #[cfg(feature = "oracle")]
    if on {
        crate::oracle::start();
    }
    let _ = on;
}

static OWN_CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

core::arch::global_asm!(".hidden __ehdr_start", ".hidden _end");

/// Remembers where this library lies: a call from here is one that an operator of the next allocator
/// made by a jump.
fn find_own_code() {
    let (first, end): (usize, usize);
    // SAFETY: takes two addresses that the linker defines.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip + __ehdr_start]", "lea {}, [rip + _end]",
            out(reg) first, out(reg) end, options(nostack, preserves_flags, nomem)
        );
    }
    OWN_CODE[0].store(first, Ordering::Relaxed);
    OWN_CODE[1].store(end, Ordering::Relaxed);
}

/// Whether the call comes from the next allocator's own operator, whose hook books the block.
fn is_nested(frame: &CallFrame) -> bool {
    let caller = frame.return_address();
    let own = OWN_CODE[0].load(Ordering::Relaxed)..OWN_CODE[1].load(Ordering::Relaxed);
    own.contains(&caller) || next::in_operator_body(caller) && hooks::is_inside_cxx_call(&SHARED)
}

fn is_nested_free(frame: &CallFrame) -> bool {
    let caller = frame.return_address();
    let own = OWN_CODE[0].load(Ordering::Relaxed)..OWN_CODE[1].load(Ordering::Relaxed);
    own.contains(&caller) || next::in_operator_body(caller)
}

fn argument(frame: &CallFrame, index: usize) -> usize {
    frame.args.get(index).copied().unwrap_or(0)
}

/// First half of every hook; returns the function to call.
pub(crate) extern "C" fn enter(hook: usize, frame: &mut CallFrame) -> usize {
    ensure_started();
    let function = next::next(hook);
    let Some(hooked) = HOOKED.get(hook) else { return function };
    let passed_on = hooked.family == Family::Cxx && next::cxx_is_before_us();
    match hooked.shape {
        _ if passed_on => {}
        Shape::Frees => {
            let block = argument(frame, 0);
            if block != 0 {
                hooks::block_ends(&SHARED, &frame.registers(), block, hooked.kind, is_nested_free(frame));
            }
        }
        Shape::Resizes(_) | Shape::ResizesItems(..) => {
            let block = argument(frame, 0);
            frame.kept = if block == 0 || is_nested(frame) {
                Reallocation::default()
            } else {
                hooks::realloc_begins(&SHARED, &frame.registers(), block)
            };
        }
        Shape::Block(_) if hooked.family == Family::Cxx => {
            frame.nested = u64::from(is_nested(frame));
            if frame.nested == 0 {
                hooks::cxx_call_begins(&SHARED, frame.stack_pointer());
            }
        }
        Shape::Unloads => {
            hooks::code_unloads(&SHARED);
            next::unloading_begins();
        }
        Shape::Block(_) | Shape::BlockOfItems(..) | Shape::StoresBlock(_) | Shape::PassedOn => {}
    }
    function
}

/// Second half; returns the result.
pub(crate) extern "C" fn leave(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    let Some(hooked) = HOOKED.get(hook) else { return result };
    if hooked.family == Family::Cxx && matches!(hooked.shape, Shape::Block(_)) {
        if next::cxx_is_before_us() || frame.nested != 0 {
            return result;
        }
        hooks::cxx_call_ends(&SHARED);
    }
    match hooked.shape {
        Shape::Block(bytes) => begun(hooked, frame, result, argument(frame, bytes)),
        Shape::BlockOfItems(items, bytes) => {
            begun(hooked, frame, result, argument(frame, items).wrapping_mul(argument(frame, bytes)));
        }
        Shape::StoresBlock(bytes) => {
            // SAFETY: the call succeeded, so it has stored a pointer there.
            let block = if result as i32 == 0 { unsafe { *(argument(frame, 0) as *const usize) } } else { 0 };
            begun(hooked, frame, block, argument(frame, bytes));
        }
        Shape::Resizes(bytes) => resized(hooked, frame, result, argument(frame, bytes)),
        Shape::ResizesItems(items, bytes) => {
            // An overflow is a failed call, not one of size 0.
            let bytes = argument(frame, items).checked_mul(argument(frame, bytes)).unwrap_or(usize::MAX);
            resized(hooked, frame, result, bytes);
        }
        Shape::Unloads => {
            hooks::code_unloads(&SHARED);
            next::unloading_ends();
        }
        Shape::Frees | Shape::PassedOn => {}
    }
    result
}

fn new_block(hooked: &Hooked, address: usize, size: usize) -> NewBlock {
    let actual = next::usable_size(address).max(size);
    NewBlock { kind: hooked.kind, address, size, actual, heap: heap_of(address) }
}

/// glibc marks in the word before a block where it comes from; other allocators have one heap.
fn heap_of(address: usize) -> u8 {
    const MAPPED: usize = 2;
    const NOT_MAIN_ARENA: usize = 4;
    if !next::is_glibc() {
        return 0;
    }
    // SAFETY: a block that glibc just returned has a chunk header in front of it.
    let size = unsafe { *(address as *const usize).sub(1) };
    if size & MAPPED != 0 {
        2
    } else {
        u8::from(size & NOT_MAIN_ARENA != 0)
    }
}

fn begun(hooked: &Hooked, frame: &CallFrame, address: usize, size: usize) {
    if !hooks::is_on(&SHARED) || is_nested(frame) {
        return;
    }
    let registers = frame.registers();
    match address {
        0 => hooks::call_failed(&SHARED, &registers),
        _ => hooks::block_begins(&SHARED, &registers, &new_block(hooked, address, size)),
    }
}

fn resized(hooked: &Hooked, frame: &CallFrame, result: usize, size: usize) {
    // glibc's `reallocarray` jumps to `realloc`: that one call comes from our own stub.
    if !hooks::is_on(&SHARED) || is_nested(frame) {
        return;
    }
    let registers = frame.registers();
    if argument(frame, 0) == 0 {
        begun(hooked, frame, result, size);
        return;
    }
    let new = (result != 0).then(|| new_block(hooked, result, size));
    let freed = size == 0;
    hooks::realloc_ends(&SHARED, &registers, &frame.kept, hooked.kind, new.as_ref(), freed);
}
