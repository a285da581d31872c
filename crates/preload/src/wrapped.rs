//! Who would have been called without us, where the program was linked with `--wrap`: what the linker calls `__real_malloc` and so on.
//!
//! In place of `next.rs`, with the same face. Only calls of the object files that were linked so come here; those of shared libraries go
//! past. In a static program those of libraries come as well: `operator new` calls our `malloc`, and the mark of the enclosing call
//! tells that they are one.

use crate::SHARED;
use crate::hooked::{Family, HOOKED, Hook, Hooked, STUBS, Shape};
use crate::{emulated, guard};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use heapledger_linux::loader::{self, CodeFinder, Module};
use heapledger_process::ways::{self, Entry, EntryOf, OurMalloc};
use heapledger_process::{c_heap, life, start};
use heapledger_unwind::Table;
use heapledger_watch::state;

pub(crate) static NEXT: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// Functions of glibc that give blocks and call no other replaced one, once they are known; else 0. The stubs read it.
pub(crate) static DIRECT: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// The real `free`, to which its stub jumps, once it is known; 0 while it is to be asked about each call.
pub(crate) static FREE: AtomicUsize = AtomicUsize::new(0);
/// The real functions, to which the stubs jump without asking, where nothing is recorded any more and nobody watches calls; else 0.
pub(crate) static BYPASS: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// Where the code of the real C++ operators ends, as far as that is known; else 0.
static ENDS: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// Which real C++ operators lie in the same file as we do.
static LIES_WITH_US: [AtomicBool; HOOKED.len()] = [const { AtomicBool::new(false) }; HOOKED.len()];
static IS_GLIBC: AtomicBool = AtomicBool::new(false);
static CXX_IS_RUNTIME: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The real functions, as the linker has found them, in the order of the list.
    static heapledger_real: [usize; HOOKED.len()];
}

/// In place of the real functions those of another copy of us, which records what this one leads to it; else 0.
static ELSEWHERE: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];

fn real(hook: usize) -> usize {
    match ELSEWHERE.get(hook).map_or(0, |place| place.load(Ordering::Acquire)) {
        0 => linked(hook),
        elsewhere => elsewhere,
    }
}

/// What the linker has found.
fn linked(hook: usize) -> usize {
    // SAFETY: a table of constants.
    unsafe { heapledger_real.get(hook).copied().unwrap_or(0) }
}

/// Where other copies of us may lead their calls: those that lead on to a real function here.
static ENTRY_OF: EntryOf = |name| {
    let hook = HOOKED.iter().position(|hooked| hooked.symbol == name).filter(|hook| linked(*hook) != 0)?;
    STUBS.get(hook).copied().flatten().map(|stub| stub as *const () as usize)
};

/// Who records may be in another file of the program, and not see our calls, which go on to the real functions: they are led there, one
/// family wholly or not at all. What is not seen by anybody is said.
pub(crate) fn lead_elsewhere() {
    let Some(way) = ways::another() else { return };
    let mut is_unseen = false;
    for family in [Family::C, Family::Cxx] {
        let of_family = || {
            let all = HOOKED.iter().enumerate().filter(|(hook, hooked)| hooked.family == family && linked(*hook) != 0);
            all.map(|(hook, hooked)| (hook, way.entry(hooked.symbol)))
        };
        if of_family().all(|(_, entry)| matches!(entry, Entry::At(_))) {
            for (hook, entry) in of_family() {
                if let (Entry::At(address), Some(place), Some(next)) = (entry, ELSEWHERE.get(hook), NEXT.get(hook)) {
                    place.store(address, Ordering::Release);
                    next.store(address, Ordering::Release);
                }
            }
        } else {
            is_unseen |= of_family().any(|(_, entry)| entry == Entry::Nowhere);
        }
    }
    if is_unseen {
        let us = loader::modules().find(Module::is_us);
        let name = us
            .as_ref()
            .map(|module| module.name().to_bytes())
            .filter(|name| !name.is_empty())
            .unwrap_or(b"the program");
        start::complain(&[name, b": another recorder is at work, which does not see what is allocated here"]);
    }
}

/// The next definition of a replaced function.
#[inline(always)]
pub(crate) fn next(hook: usize) -> usize {
    match known(hook) {
        0 => find(hook),
        address => address,
    }
}

/// The next definition, if it has been found.
#[inline(always)]
pub(crate) fn known(hook: usize) -> usize {
    NEXT.get(hook).map_or(0, |place| place.load(Ordering::Acquire))
}

/// The next definition, by name.
pub(crate) fn next_of(hook: Hook) -> usize {
    next(hook as usize)
}

/// Every thread that gets here at the same time finds and stores the same.
#[cold]
fn find(hook: usize) -> usize {
    let Some(place) = NEXT.get(hook) else { return emulated::NOTHING };
    let is_c = HOOKED.get(hook).is_some_and(|hooked| hooked.family == Family::C);
    // The C library's own calls its `realloc` past us, or not, as it happens to be linked.
    let is_ours = hook == Hook::Reallocarray as usize;
    let own = Some(real(hook)).filter(|address| *address != 0 && !is_ours);
    let found = own.or_else(|| emulated::from_family(hook).filter(|_| is_c));
    place.store(found.unwrap_or(0), Ordering::Release);
    found.unwrap_or_else(|| emulated::otherwise(hook))
}

/// Looks at what the real functions are: before anything is recorded, and not before the program is loaded.
pub(crate) fn look() {
    knock();
    find_glibc();
    CXX_IS_RUNTIME.store(cxx_module().is_some_and(|module| is_cxx_runtime(&module)), Ordering::Relaxed);
    let finder = CodeFinder::new();
    finder.start();
    for (hook, hooked) in HOOKED.iter().enumerate().filter(|(hook, _)| real(*hook) != 0) {
        next(hook);
        if hooked.family == Family::Cxx
            && let (Some(end), Some(lies_with_us)) = (ENDS.get(hook), LIES_WITH_US.get(hook))
        {
            end.store(end_of(&finder, real(hook)), Ordering::Release);
            let file_of = |address| finder.find(address).map(|code| code.eh_frame_header);
            lies_with_us.store(file_of(real(hook)) == file_of(look as *const () as usize), Ordering::Relaxed);
        }
    }
    ways::offer_entries(&ENTRY_OF);
    let [errno_location, abort] = of_c_library();
    heapledger_api::hooks::c_library(errno_location, abort);
    state::listen(&(look_who_watches as fn()));
    look_who_watches();
}

/// The real `free`, if it is known and nobody watches calls.
#[inline(always)]
pub(crate) fn free() -> usize {
    FREE.load(Ordering::Acquire)
}

/// Something has changed in whether calls are watched, or in whether anything will be recorded: stubs that need not ask go on at once.
pub(crate) fn look_who_watches() {
    // Should others change it all the time, stubs ask until it changes again: that is never wrong, only slower.
    const TRIES: u32 = 100;
    for tried in 0..=TRIES {
        let is_watched = state::is_watched() || tried == TRIES;
        let is_over = life::is_over(&SHARED);
        let store = |place: Option<&AtomicUsize>, hook: usize, when: bool| {
            if let Some(place) = place {
                place.store(if when { real(hook) } else { 0 }, Ordering::SeqCst);
            }
        };
        store(Some(&FREE), Hook::Free as usize, !is_watched);
        for (hook, hooked) in HOOKED.iter().enumerate() {
            store(BYPASS.get(hook), hook, is_over && !is_watched);
            let comes_from_glibc = hooked.family == Family::C && is_glibc();
            let is_looked_at = hooked.shape == Shape::Asks && guard::is_on();
            store(DIRECT.get(hook), hook, comes_from_glibc && !is_watched && !is_looked_at);
        }
        // Who changes it meanwhile in another thread sees what was stored here, or is seen here.
        if state::is_watched() == is_watched {
            break;
        }
    }
}

/// `__errno_location` and `abort`; 0 where the program has none.
fn of_c_library() -> [usize; 2] {
    let (errno_location, abort): (usize, usize);
    // SAFETY: loads addresses from our own table.
    unsafe {
        asm!(
            ".weak __errno_location",
            ".weak abort",
            "mov {}, qword ptr [rip + __errno_location@GOTPCREL]",
            "mov {}, qword ptr [rip + abort@GOTPCREL]",
            out(reg) errno_location, out(reg) abort, options(nostack, preserves_flags, readonly)
        );
    }
    [errno_location, abort]
}

/// The C library's `__errno_location`; 0 if there is none.
pub(crate) fn errno_location() -> usize {
    let [errno_location, _] = of_c_library();
    errno_location
}

/// A recorder that stands in front of the real functions sees more than we do: it begins now, if it has not, and we find it at work.
fn knock() {
    let function =
        [Hook::MallocUsableSize, Hook::Free].map(|hook| real(hook as usize)).into_iter().find(|real| *real != 0);
    if let Some(function) = function {
        // SAFETY: one of two functions that take a pointer, and do nothing with null.
        unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> usize>(function)(0) };
    }
}

/// Whether the real `malloc` is glibc's: of the module that answers the program's calls, or in a static program itself.
fn find_glibc() {
    let (own, mallinfo2): (usize, usize);
    // SAFETY: loads addresses from our own table; 0 if nobody defines them. Both stand in the same file of glibc's archive.
    unsafe {
        asm!(
            ".weak __libc_malloc",
            ".weak mallinfo2",
            "mov {}, qword ptr [rip + __libc_malloc@GOTPCREL]",
            "mov {}, qword ptr [rip + mallinfo2@GOTPCREL]",
            out(reg) own, out(reg) mallinfo2, options(nostack, preserves_flags, readonly)
        );
    }
    let is_own = own != 0 && own == real(Hook::Malloc as usize) && mallinfo2 != 0;
    let is_libc = |module: Module| module.name().to_bytes().ends_with(b"/libc.so.6");
    let module = c_module();
    if module.is_none() && is_own {
        c_heap::is_at(mallinfo2);
    }
    IS_GLIBC.store(module.map_or(is_own, is_libc), Ordering::Relaxed);
}

/// From now on the stub passes its calls on without asking.
pub(crate) fn bypass(hook: usize, function: usize) {
    if let Some(place) = BYPASS.get(hook) {
        place.store(function, Ordering::SeqCst);
    }
}

/// Never: the linker has bound the program's calls to us.
pub(crate) fn is_last() -> bool {
    false
}

/// How many files of the program there are beside ours, but for the kernel's and the loader.
pub(crate) fn others() -> usize {
    let is_one = |module: &Module| {
        let name = module.name().to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
        !module.is_us() && ![&b"linux-vdso"[..], b"ld-linux"].iter().any(|start| name.starts_with(start))
    };
    ways::without_recorders(loader::modules().filter(is_one)).count()
}

fn c_module() -> Option<Module> {
    ways::answering_module(OurMalloc::PassesOn)
}

fn cxx_module() -> Option<Module> {
    loader::modules().find(|module| module.symbol(b"_Znwm").is_some())
}

/// The module whose `malloc` we call, and the one whose `operator new`, as far as there are any; nobody is called before us.
pub(crate) fn modules_called() -> [Option<Module>; 3] {
    [c_module(), cxx_module(), None]
}

fn is_cxx_runtime(module: &Module) -> bool {
    let name = module.name().to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    [&b"libstdc++.so"[..], b"libc++.so", b"libc++abi.so"].iter().any(|runtime| name.starts_with(runtime))
}

/// Whether a hook's blocks come from the real `malloc`.
#[inline]
pub(crate) fn gives_malloc_blocks(_: usize, family: Family) -> bool {
    family == Family::C || CXX_IS_RUNTIME.load(Ordering::Relaxed)
}

/// Whether a C++ operator's blocks can be sampled at `malloc`: a runtime that is a library does not call ours.
pub(crate) fn calls_malloc(_: usize) -> bool {
    false
}

/// Whether a function's call is made to fail where that calls another replaced one: operators that lie in the program's own file call our
/// `malloc`, those of a library do not.
pub(crate) fn fails_inside(hook: usize, _: &Hooked) -> bool {
    LIES_WITH_US.get(hook).is_some_and(|lies| lies.load(Ordering::Relaxed))
}

/// Bytes that a block really has; 0 if the allocator does not tell.
#[inline]
pub(crate) fn usable_size(block: usize) -> usize {
    if guard::is_on() { guard::actual_size(block) } else { told_size(block) }
}

/// What the allocator says of a block of its own; 0 if it says nothing.
#[inline]
pub(crate) fn told_size(block: usize) -> usize {
    match real(Hook::MallocUsableSize as usize) {
        0 => 0,
        // SAFETY: the allocator's own `malloc_usable_size`, asked about a block that it just returned, or has not taken back.
        function => unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> usize>(function)(block) },
    }
}

/// Whether blocks come from glibc's malloc, with its chunk headers.
#[inline]
pub(crate) fn is_glibc() -> bool {
    IS_GLIBC.load(Ordering::Relaxed)
}

/// Nothing else is loaded that could have one.
pub(crate) fn in_new_operator_body(_: usize) -> bool {
    false
}

/// Whether a call may be part of one that is about the same: where the real function may lie anywhere in the program.
pub(crate) fn in_library_behind_us(_: usize) -> bool {
    true
}

/// No: the linker says who is called.
pub(crate) fn c_is_before_us() -> bool {
    false
}

/// No: the linker says who is called.
pub(crate) fn cxx_is_before_us() -> bool {
    false
}

/// Whether an address lies in the body of a real C++ operator.
pub(crate) fn in_operator_body(address: usize) -> bool {
    // A return address lies behind the call, at most at the end of the body.
    let mut bodies =
        NEXT.iter().zip(&ENDS).map(|(start, end)| (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed)));
    bodies.any(|(start, end)| start < address && address <= end)
}

/// Where a function ends, as its unwind table says.
fn end_of(finder: &CodeFinder, start: usize) -> usize {
    let code = finder.find(start).filter(|code| code.eh_frame_header != 0);
    let segment = code.and_then(|code| Some((code.segment(code.eh_frame_header)?, code.eh_frame_header)));
    let function = segment.and_then(|(segment, header)| {
        let (segment_address, header_address) = (segment.address() as u64, header as u64);
        Table { segment: segment.bytes(), segment_address, header_address }.function(start as u64)
    });
    function.filter(|function| function.start == start as u64).map_or(0, |function| function.end as usize)
}

/// Nobody tells of that.
pub(crate) fn unloading_begins() {}

/// Nobody tells of that.
pub(crate) fn unloading_ends() {}

/// Nothing is looked at: calls of other modules go past us, whatever they call.
pub(crate) fn while_nothing_unloads(_: impl FnOnce()) {}
