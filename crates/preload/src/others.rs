//! What other modules of the process may do past us: whether they call the same operators of C++, or may have their own, which nobody
//! sees; whether they have memory of the allocator behind us, and we are not told.
#![forbid(unsafe_code)]

use crate::SHARED;
use crate::hooked::{Family, HOOKED, Hook, Shape};
use crate::next;
use crate::real::REAL;
use core::sync::atomic::Ordering;
use heapledger_linux::apart;
use heapledger_linux::loader::{Module, modules};
use heapledger_process::guarded::GUARD;
use heapledger_process::{arenas, enclosing};

/// Whether no module may have operators that others do not call. Looks at all of them each time: it is asked where a block was given
/// back wrongly, or so it seems.
#[cold]
pub(crate) fn share_operators() -> bool {
    all_are(is_plain)
}

/// Whether no module is known to call the allocator behind us by names of its own.
#[cold]
pub(crate) fn all_call_us() -> bool {
    !next::c_is_before_us() && !next::is_last() && all_are(|module, _| !calls_past_us(module))
}

/// Whether blocks are glibc's, and those of nobody in front of us.
#[cold]
pub(crate) fn is_glibc() -> bool {
    next::is_glibc() && !next::c_is_before_us() && !next::is_last()
}

/// Whom to call in place of a function where blocks are guarded. An allocator's own `delete` gives blocks back to it without a call that we
/// could see; its own `new` for an alignment may have them from `aligned_alloc`, guarded (jemalloc). For those `free` stands for all forms of
/// `delete`. Any other block is as its `new` has made it: with something in front of it, or from a pool.
#[inline(never)]
pub(crate) fn instead_of(hook: usize, function: usize, block: usize) -> usize {
    let deletes = HOOKED.get(hook).is_some_and(|hooked| hooked.family == Family::Cxx && hooked.shape == Shape::Frees);
    let is_guarded = || if arenas::contains(block) { arenas::begins(block) } else { GUARD.begins(block) };
    if deletes && is_guarded() && next::in_library_behind_us(function) { next::next_of(Hook::Free) } else { function }
}

/// The allocator's answer to a call of the guard's: what it calls for that, it calls for itself, also where its own functions come to ours.
#[inline(always)]
pub(crate) fn asked<T>(call: impl FnOnce() -> T) -> T {
    if next::is_glibc() {
        return call();
    }
    let was_inside = enclosing::goes_inside(true);
    let answer = call();
    enclosing::goes_inside(was_inside);
    answer
}

/// The function for a call that is part of another one. What the allocator has by its own functions, while it is [asked](asked), it knows as what
/// they give.
#[cold]
#[inline(never)]
pub(crate) fn of_inner(hook: usize, caller: usize, function: usize) -> usize {
    let is_inside = enclosing::enclosing_call(&SHARED).is_some_and(|call| call.is_inside());
    let own = REAL.get(hook).map_or(0, |real| real.load(Ordering::Acquire));
    if is_inside && own != 0 && next::in_library_behind_us(caller) { own } else { function }
}

/// Whether all modules are so; the second argument: it is the program itself.
fn all_are(is_so: impl Fn(&Module, bool) -> bool) -> bool {
    apart::result_of(false, || {
        // Where this code is part of the program, calls of other modules go past it.
        let (mut are_all, is_apart) = (false, modules().next().is_some_and(|program| !program.is_us()));
        let look = || are_all = modules().enumerate().all(|(row, module)| is_so(&module, row == 0));
        if is_apart {
            next::while_nothing_unloads(look);
        }
        are_all
    })
}

/// Whether a module has no operators of its own that only it calls.
fn is_plain(module: &Module, is_program: bool) -> bool {
    if module.is_us() || is_system(module) {
        return true;
    }
    let operators = [&b"_Znwm"[..], b"_Znam", b"_ZdlPv", b"_ZdaPv", b"_ZdlPvm", b"_ZdaPvm"];
    if operators.iter().any(|name| module.symbol(name).is_some()) {
        return false; // it may be bound to those itself
    }
    let (mut takes_new, mut takes_delete, mut is_cxx) = (false, false, false);
    module.each_import(&mut |name| {
        let begins = |all: &[&[u8]]| all.iter().any(|start| name.starts_with(start));
        takes_new |= begins(&[b"_Znwm", b"_Znam"]);
        takes_delete |= begins(&[b"_ZdlPv", b"_ZdaPv"]);
        // What calls a runtime of C++, and what such a runtime calls that was linked in.
        is_cxx |= begins(&[b"_ZSt", b"_ZNSt", b"_ZNKSt", b"_ZTVN10__cxxabiv", b"__cxa_begin_catch", b"__cxa_throw"])
            || begins(&[b"__gxx_personality", b"_Unwind_RaiseException", b"dl_iterate_phdr", b"_dl_find_object"]);
    });
    match is_program {
        // Operators of its own are seen by all.
        true => !is_cxx || takes_new || takes_delete,
        // Those of a library need not be.
        false => !is_cxx && !takes_new && !takes_delete || takes_new && takes_delete,
    }
}

/// Whether a module is the C library, the loader, a runtime whose operators all call, or the library that judges calls.
fn is_system(module: &Module) -> bool {
    let name = module.name().to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    [
        &b"libstdc++.so"[..],
        b"libc++.so",
        b"libc++abi.so",
        b"libgcc_s.so",
        b"libunwind.so",
        b"libc.so",
        b"libm.so",
        b"ld-linux",
        b"linux-vdso",
        b"libheapledger",
    ]
    .iter()
    .any(|known| name.starts_with(known))
}

/// Whether a module calls glibc's functions by the names that nobody replaces.
fn calls_past_us(module: &Module) -> bool {
    const NAMES: [&[u8]; 5] =
        [b"__libc_malloc", b"__libc_calloc", b"__libc_realloc", b"__libc_memalign", b"__libc_free"];
    let mut calls = false;
    if !module.is_us() && !is_system(module) {
        module.each_import(&mut |name| calls |= NAMES.contains(&name));
    }
    calls
}
