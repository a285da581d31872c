//! Who would have been called without us.
//!
//! # How it is found
//!
//! `dlsym` allocates and takes locks; `dl_iterate_phdr` takes the lock that a thread inside `dlopen` holds while it
//! waits for us. So symbols are looked up in the modules' own hash tables, over the list that debuggers use, and code
//! addresses through glibc's `_dl_find_object` (2.35), which is lock-free. The whole C family comes from one module,
//! the first behind us that defines `malloc`: no allocator ever gets another's block. C++ operators are found when
//! first called and again after each `dlclose`. If a module in front of us defines an `operator new`, C++ calls are
//! only passed on.
//!
//! If nobody behind us has a `malloc` the library was not preloaded: `dlopen` brought it, or it was linked last. The
//! program's calls go past it then. The few that come (by `dlsym`, or from a namespace of its own) are passed on to
//! the first allocator in the list of modules, and nothing is recorded: a ledger of these would look like the whole.
//! The same under musl, whose loader notes its list elsewhere.
//!
//! A module opened with `RTLD_DEEPBIND` looks into what it needs itself, the C library included, before it looks
//! elsewhere: its calls go past everything preloaded. The stub of `dlopen` sees the flag, counts it (`deep_bound`),
//! and jumps on: the loader takes the return address for who is asking (RUNPATH, namespace), and sees the program's.
//! Nothing of the call is changed, but where blocks are guarded: there the flag is taken away (`deep_unbound`).
//!
//! `dlclose` is replaced, too, and `iconv_close` beside it, which unloads modules on its own: they move the
//! *generation* on, before and after. Code also goes without either (an `fclose` of a stream with `ccs=`, a library
//! that could not be loaded after all). It can only be missed until other code comes to lie there, and for that the
//! loader allocates what it keeps of a library: a `calloc` from the loader of that size moves the generation on, too.
//! Rules, whole stacks and code addresses of an earlier generation are checked again before they are believed. So it
//! is also known that an address in no module has no table until then, and stacks that pass generated code along
//! frame pointers (JavaScript in node) are remembered like others, though marked as guessed.

use crate::hooked::{Family, HOOKED, Hook, Hooked, Shape};
use crate::{direct, emulated, guard};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use heapledger_linux::loader::{CodeFinder, Module, Symbol, modules_after_us, modules_before_us, modules_but_us};
use heapledger_linux::{apart, fork::ForkCounts, syscall};
use heapledger_watch::state;

pub(crate) static NEXT: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// Functions of the allocator that give blocks and call no other replaced one, once they are known and as long as nobody watches calls; else 0. Of the
/// operators of C++ runtimes, what they are made of: for those without an alignment, whose stubs are in `operators.rs`. The stubs read it.
pub(crate) static DIRECT: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// The real `free`, to which its stub jumps, once it is known; 0 while it is to be asked about each call.
pub(crate) static FREE: AtomicUsize = AtomicUsize::new(0);
/// A module in front of us defines `calloc` or its like: who calls ours need not be who wanted it.
static C_IS_BEFORE_US: AtomicBool = AtomicBool::new(false);
/// The real functions of C++ operators that nobody books, to which their stubs jump without asking; else 0.
pub(crate) static BYPASS: [AtomicUsize; HOOKED.len()] = [const { AtomicUsize::new(0) }; HOOKED.len()];
/// `malloc_usable_size` of the module that has `malloc`; 0 if it has none.
static USABLE_SIZE: AtomicUsize = AtomicUsize::new(0);
/// No module behind us defines `malloc`: the program's calls go past us.
static IS_LAST: AtomicBool = AtomicBool::new(false);
/// Nobody preloaded us, and still the program's calls come to us: its modules are bound anew.
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
static C_FAMILY_FOUND: AtomicBool = AtomicBool::new(false);
static NEXT_IS_GLIBC: AtomicBool = AtomicBool::new(false);
/// First address and end of the module that has the next `malloc`; zeros if that is glibc.
static BEHIND_US: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// A module in front of us defines `operator new`: its blocks reach us as `malloc`.
static CXX_IS_BEFORE_US: AtomicBool = AtomicBool::new(false);

/// How many threads walk the loader's list, and how many are inside `dlclose`, which changes it. A forked child has none of these.
static BUSY: ForkCounts<2> = ForkCounts::new();
const WALKING: usize = 0;
const UNLOADING: usize = 1;

/// Code is about to be unloaded: waits, not for long, until nobody walks the list of modules.
pub(crate) fn unloading_begins() {
    const WAITS_MAX: u32 = 100;
    const WAIT_MS: u32 = 1;
    BUSY.enter(UNLOADING);
    for _ in 0..WAITS_MAX {
        match BUSY.at(WALKING).map(|count| (count, count.load(Ordering::SeqCst))) {
            None | Some((_, 0)) => break,
            Some((count, walking)) => syscall::futex_wait(count, walking, WAIT_MS),
        }
    }
}

/// Code has been unloaded: definitions that went with it are forgotten, and looked for again when needed.
pub(crate) fn unloading_ends() {
    BUSY.leave(UNLOADING);
    let finder = CodeFinder::new();
    if !finder.start_from(C_LIBRARY_FINDER.load(Ordering::Acquire)) {
        return;
    }
    for (hook, _) in of_family(Family::Cxx) {
        if let (Some(place), Some(bypass)) = (NEXT.get(hook), BYPASS.get(hook)) {
            let known = place.load(Ordering::Acquire);
            if known != 0 && finder.find(known).is_none() {
                let _ = place.compare_exchange(known, 0, Ordering::SeqCst, Ordering::Relaxed);
                bypass.store(0, Ordering::SeqCst);
            }
        }
    }
    BODIES.forget(|start| finder.find(start).is_none());
    look_who_watches();
}

/// Runs `walk` unless a module is being unloaded at this moment.
pub(crate) fn while_nothing_unloads(walk: impl FnOnce()) {
    BUSY.enter(WALKING);
    if BUSY.get(UNLOADING) == 0 {
        walk();
    }
    BUSY.leave(WALKING);
}

/// Bodies of C++ operators behind us: a `malloc` called from one of them belongs to the operator.
///
/// A word each: 48 bits of address, then 16 of length. The operators are short functions.
struct Bodies([AtomicUsize; Self::MAX]);

impl Bodies {
    const MAX: usize = 256;
    const LENGTH_BITS: u32 = 16;
    const BYTES_MAX: usize = (1 << Self::LENGTH_BITS) - 1;
    const GONE: usize = 1 << Self::LENGTH_BITS;

    /// Takes the first free place: one word says that it is taken, so two threads cannot mix theirs.
    fn add(&self, symbol: Symbol) {
        let (start, length) = (symbol.address, symbol.bytes.min(Self::BYTES_MAX));
        let body = start << Self::LENGTH_BITS | length;
        for place in &self.0 {
            match place.compare_exchange(0, body, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(known) if known == body => return,
                Err(_) => {}
            }
        }
    }

    fn contain(&self, address: usize) -> bool {
        self.0.iter().map(|place| place.load(Ordering::Acquire)).take_while(|body| *body != 0).any(|body| {
            let (start, length) = (body >> Self::LENGTH_BITS, body & Self::BYTES_MAX);
            // A return address lies behind the call, at most at the end of the body.
            address > start && address.wrapping_sub(start) <= length
        })
    }

    /// Makes bodies that are gone contain nothing. Their places stay taken.
    fn forget(&self, is_gone: impl Fn(usize) -> bool) {
        for place in &self.0 {
            let body = place.load(Ordering::Acquire);
            if body == 0 {
                break;
            }
            if body != Self::GONE && is_gone(body >> Self::LENGTH_BITS) {
                let _ = place.compare_exchange(body, Self::GONE, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

static BODIES: Bodies = Bodies([const { AtomicUsize::new(0) }; Bodies::MAX]);
/// Which functions are known to give blocks of the next `malloc`: its own family, and C++ operators of the C++ runtimes and
/// of the allocator itself. Others may give memory of their own, without a chunk header.
static GIVES_MALLOC_BLOCKS: [AtomicBool; HOOKED.len()] = [const { AtomicBool::new(false) }; HOOKED.len()];
/// Which C++ operators are those of a C++ runtime, which call the public `malloc` and `free`. An allocator's own do not.
static CALLS_MALLOC: [AtomicBool; HOOKED.len()] = [const { AtomicBool::new(false) }; HOOKED.len()];
/// Address of `_dl_find_object`, found at the first call.
static C_LIBRARY_FINDER: AtomicUsize = AtomicUsize::new(0);

/// The next definition of a replaced function.
#[inline(always)]
pub(crate) fn next(hook: usize) -> usize {
    match NEXT.get(hook).map(|place| place.load(Ordering::Acquire)) {
        Some(0) | None => find(hook),
        Some(address) => address,
    }
}

/// From now on the stub of a C++ operator passes its calls on without asking.
pub(crate) fn bypass(hook: usize, function: usize) {
    if let (Some(place), Some(next)) = (BYPASS.get(hook), NEXT.get(hook)) {
        place.store(function, Ordering::SeqCst);
        // If it went away meanwhile, this is seen here, or its end sees what was just stored.
        if next.load(Ordering::SeqCst) != function {
            place.store(0, Ordering::SeqCst);
        }
    }
}

/// The real `free`, if it is known and nobody watches calls.
#[inline(always)]
pub(crate) fn free() -> usize {
    FREE.load(Ordering::Acquire)
}

/// Something has changed in whether calls are watched, or in who is next: stubs that need not ask go on at once.
pub(crate) fn look_who_watches() {
    // Should others change it all the time, stubs ask until it changes again: that is never wrong, only slower.
    const TRIES: u32 = 100;
    for tried in 0..=TRIES {
        let is_watched = state::is_watched() || tried == TRIES;
        // Before anybody gets a guarded block, of which the allocator cannot say how long it is.
        for hook in (0..HOOKED.len()).filter(|hook| is_looked_at(*hook)) {
            if let Some(direct) = DIRECT.get(hook) {
                direct.store(0, Ordering::SeqCst);
            }
        }
        let free =
            if is_watched { 0 } else { NEXT.get(Hook::Free as usize).map_or(0, |next| next.load(Ordering::SeqCst)) };
        FREE.store(free, Ordering::SeqCst);
        let is_direct = !is_watched && direct::is_possible();
        for (hook, _) in of_family(Family::C) {
            if let (Some(direct), Some(next)) = (DIRECT.get(hook), NEXT.get(hook)) {
                let is_direct = is_direct && !is_looked_at(hook);
                direct.store(if is_direct { next.load(Ordering::SeqCst) } else { 0 }, Ordering::SeqCst);
            }
        }
        let operators = !is_watched && operators_are_direct();
        for (hook, _) in of_family(Family::Cxx) {
            if let (Some(direct), Some(hooked)) = (DIRECT.get(hook), HOOKED.get(hook)) {
                direct.store(if operators { made_of(hook, hooked) } else { 0 }, Ordering::SeqCst);
            }
        }
        // Who changes it meanwhile in another thread sees what was stored here, or is seen here. (A guard that begins, too.)
        let now = (!is_watched && direct::is_possible(), !is_watched && operators_are_direct());
        if state::is_watched() == is_watched && now == (is_direct, operators) {
            break;
        }
    }
}

/// Whether it is seen what is asked about blocks.
fn is_looked_at(hook: usize) -> bool {
    guard::is_on() && HOOKED.get(hook).is_some_and(|hooked| hooked.shape == Shape::Asks)
}

/// Whether what a C++ runtime's operators do can be done without them: nobody stands between them and glibc, and a block is not sampled
/// nor guarded.
fn operators_are_direct() -> bool {
    let is_plain = !guard::is_on() && !crate::SHARED.sampling.is_on();
    is_plain && is_glibc() && !cxx_is_before_us() && !c_is_before_us()
}

/// The function of glibc that an operator of a C++ runtime comes down to; 0 if it is none of these, or another one.
fn made_of(hook: usize, hooked: &Hooked) -> usize {
    let known = |hook: usize| NEXT.get(hook).map_or(0, |next| next.load(Ordering::SeqCst));
    if known(hook) == 0 || !calls_malloc(hook) {
        return 0;
    }
    match hooked.shape {
        Shape::Block(_) => known(Hook::Malloc as usize),
        Shape::Frees => known(Hook::Free as usize),
        _ => 0,
    }
}

/// Puts a function before the next definition of another one, of the C family. Nothing if there is none.
pub(crate) fn put_before(hook: Hook, function: usize) {
    if let Some(place) = NEXT.get(hook as usize).filter(|place| place.load(Ordering::Acquire) != 0) {
        place.store(function, Ordering::Release);
    }
}

/// The next definition, by name.
pub(crate) fn next_of(hook: Hook) -> usize {
    next(hook as usize)
}

#[cold]
fn find(hook: usize) -> usize {
    apart::result_of(emulated::NOTHING, || find_here(hook))
}

fn find_here(hook: usize) -> usize {
    if !C_FAMILY_FOUND.load(Ordering::Acquire) {
        find_c_family();
    }
    let Some(hooked) = HOOKED.get(hook) else { return emulated::NOTHING };
    if hooked.family != Family::C {
        // C++ libraries can be loaded at any time, so what is not found is looked for again.
        while_nothing_unloads(|| find_by_order(hooked.family));
        look_who_watches();
    }
    match NEXT.get(hook).map(|place| place.load(Ordering::Acquire)) {
        Some(0) | None => emulated::otherwise(hook),
        Some(address) => address,
    }
}

fn set(hook: usize, address: usize) {
    if let Some(place) = NEXT.get(hook) {
        place.store(address, Ordering::Release);
    }
}

fn of_family(family: Family) -> impl Iterator<Item = (usize, &'static [u8])> {
    HOOKED
        .iter()
        .enumerate()
        .filter(move |(_, hooked)| hooked.family == family)
        .map(|(hook, hooked)| (hook, hooked.symbol))
}

/// The modules that are looked through for who is next, in their order.
fn modules_in_line() -> impl Iterator<Item = Module> {
    let is_last = IS_LAST.load(Ordering::Relaxed);
    let all = is_last.then(modules_but_us).into_iter().flatten();
    (!is_last).then(modules_after_us).into_iter().flatten().chain(all)
}

/// Nobody behind us has an allocator: who calls us is passed on to the program's, which stands in front.
pub(crate) fn is_last() -> bool {
    IS_LAST.load(Ordering::Relaxed)
}

/// The program's calls will come to us, although we are behind all that it was started with: nobody stands in front of us.
///
/// # Errors
/// Why they cannot: a sentence.
pub(crate) fn stand_in_front() -> Result<(), &'static [u8]> {
    let Some(module) = c_module() else { return Err(b"the program has no malloc that a library could replace") };
    if modules_in_line().next().is_some_and(|first| first.is_same(&module)) {
        return Err(b"the program brings its own malloc, which it calls without asking the loader");
    }
    // An operator of somebody else's may give memory of its own, and is called past us by its own module.
    let operators = modules_in_line().find_map(|module| Some((module, module.symbol(b"_Znwm")?)));
    let is_foreign =
        operators.is_some_and(|(module, found)| !is_cxx_runtime(&module) && !in_library_behind_us(found.address));
    CXX_IS_BEFORE_US.store(is_foreign, Ordering::Release);
    C_IS_BEFORE_US.store(false, Ordering::Release);
    IS_ATTACHED.store(true, Ordering::Release);
    look_who_watches();
    Ok(())
}

/// Whether the program's modules are bound anew.
pub(crate) fn is_attached() -> bool {
    IS_ATTACHED.load(Ordering::Relaxed)
}

fn c_module() -> Option<Module> {
    modules_in_line().find(|module| module.symbol(b"malloc").is_some())
}

/// Every thread that gets here at the same time finds and stores the same.
fn find_c_family() {
    let _ = BUSY.at(WALKING); // now: later the program may have forbidden itself the system calls that its page takes
    if modules_after_us().all(|module| module.symbol(b"malloc").is_none()) {
        IS_LAST.store(true, Ordering::Relaxed);
    }
    let Some(module) = c_module() else { return };
    for (hook, symbol) in of_family(Family::C) {
        let own = module.symbol(symbol);
        // What that module lacks is put together from what it has, or else is what the dynamic linker would have taken.
        let own = own.map(|found| found.address).or_else(|| emulated::from_family(hook));
        // A block from elsewhere (`pvalloc`, which jemalloc lacks) is none that the family can be asked about.
        if let Some(gives) = GIVES_MALLOC_BLOCKS.get(hook) {
            gives.store(own.is_some(), Ordering::Relaxed);
        }
        let elsewhere = || modules_in_line().find_map(|module| module.symbol(symbol)).map(|found| found.address);
        let found = own.or_else(elsewhere);
        set(hook, found.unwrap_or(emulated::NOTHING));
    }
    USABLE_SIZE.store(module.symbol(b"malloc_usable_size").map_or(0, |found| found.address), Ordering::Release);
    // Of the C library, hence there from the start: nobody must find them missing while a module is unloaded.
    find_by_order(Family::Loader);
    let is_glibc = module.name().to_bytes().ends_with(b"/libc.so.6");
    NEXT_IS_GLIBC.store(is_glibc, Ordering::Release);
    direct::note_allocator(&module);
    let finder = CodeFinder::new();
    if finder.start() {
        C_LIBRARY_FINDER.store(finder.address(), Ordering::Release);
    }
    if !is_glibc {
        let code = module.symbol(b"malloc").and_then(|malloc| finder.find(malloc.address));
        BEHIND_US[0].store(code.map_or(0, |code| code.low), Ordering::Relaxed);
        BEHIND_US[1].store(code.map_or(0, |code| code.high), Ordering::Relaxed);
    }
    let cxx_before = modules_before_us().any(|module| {
        let gives = |hook: usize| HOOKED.get(hook).is_some_and(|hooked| hooked.kind.allocates());
        of_family(Family::Cxx).any(|(hook, symbol)| gives(hook) && module.symbol(symbol).is_some())
    });
    CXX_IS_BEFORE_US.store(cxx_before, Ordering::Release);
    let is_of_c =
        |module: &Module| [&b"calloc"[..], b"malloc", b"free"].iter().any(|name| module.symbol(name).is_some());
    C_IS_BEFORE_US.store(modules_before_us().any(|module| is_of_c(&module)), Ordering::Release);
    C_FAMILY_FOUND.store(true, Ordering::Release);
    heapledger_api::hooks::c_library(errno_location(), of_c_library(b"abort"));
    state::listen(&(look_who_watches as fn()));
    look_who_watches();
}

fn of_c_library(name: &[u8]) -> usize {
    modules_in_line().find_map(|module| module.symbol(name)).map_or(0, |found| found.address)
}

/// The C library's `__errno_location`; 0 if there is none.
pub(crate) fn errno_location() -> usize {
    of_c_library(b"__errno_location")
}

fn find_by_order(family: Family) {
    // Behind the program's allocator another copy of this library may stand in front, which finds our operators.
    let is_ours = |module: &Module| module.symbol(b"mremap").is_some() && module.symbol(b"_Znwm").is_some();
    let is_wanted = |module: &Module| !(is_last() && family == Family::Cxx && is_ours(module));
    for (hook, symbol) in of_family(family) {
        for (module, found) in
            modules_in_line().filter(is_wanted).filter_map(|module| Some((module, module.symbol(symbol)?)))
        {
            if NEXT.get(hook).is_some_and(|place| place.load(Ordering::Relaxed) == 0) {
                if let (Some(gives), Some(calls)) = (GIVES_MALLOC_BLOCKS.get(hook), CALLS_MALLOC.get(hook)) {
                    let is_runtime = is_cxx_runtime(&module);
                    gives.store(is_runtime || in_library_behind_us(found.address), Ordering::Relaxed);
                    calls.store(is_runtime, Ordering::Relaxed);
                }
                set(hook, found.address);
            }
            if family == Family::Cxx {
                BODIES.add(found);
            }
        }
    }
}

fn is_cxx_runtime(module: &Module) -> bool {
    let name = module.name().to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    [&b"libstdc++.so"[..], b"libc++.so", b"libc++abi.so"].iter().any(|runtime| name.starts_with(runtime))
}

/// Whether a hook's blocks come from the next `malloc`.
#[inline]
pub(crate) fn gives_malloc_blocks(hook: usize, family: Family) -> bool {
    family == Family::C && is_glibc()
        || GIVES_MALLOC_BLOCKS.get(hook).is_some_and(|gives| gives.load(Ordering::Relaxed))
}

/// Whether a C++ operator calls the public `malloc` or `free`, so that its blocks can be sampled there.
pub(crate) fn calls_malloc(hook: usize) -> bool {
    CALLS_MALLOC.get(hook).is_some_and(|calls| calls.load(Ordering::Relaxed))
}

/// Whether a function's call is made to fail where that calls another replaced one.
pub(crate) fn fails_inside(hook: usize, hooked: &Hooked) -> bool {
    hooked.family == Family::Cxx && calls_malloc(hook) || matches!(hooked.shape, Shape::ResizesItems(..))
}

/// The module whose `malloc` we call, the one whose `operator new`, and the one whose `malloc` is called before us, as far as there are any.
pub(crate) fn modules_called() -> [Option<Module>; 3] {
    let ahead = c_is_before_us().then(|| modules_before_us().find(|module| module.symbol(b"malloc").is_some()));
    [c_module(), modules_in_line().find(|module| module.symbol(b"_Znwm").is_some()), ahead.flatten()]
}

/// Bytes that a block really has; 0 if the allocator does not tell.
#[inline]
pub(crate) fn usable_size(block: usize) -> usize {
    if guard::is_on() { guard::actual_size(block) } else { told_size(block) }
}

/// What the module that has `malloc` says of a block of its own; 0 if it says nothing: another one's `malloc_usable_size` would take it for its own.
#[inline]
pub(crate) fn told_size(block: usize) -> usize {
    match USABLE_SIZE.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: the allocator's own `malloc_usable_size`, asked about a block that it just returned, or has not taken back.
        function => unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> usize>(function)(block) },
    }
}

/// Whether blocks come from glibc's malloc, with its chunk headers.
#[inline]
pub(crate) fn is_glibc() -> bool {
    NEXT_IS_GLIBC.load(Ordering::Relaxed)
}

/// The same for operators of libraries that were loaded since anybody looked. Looks again, which takes long.
#[cold]
pub(crate) fn in_new_operator_body(address: usize) -> bool {
    apart::run(&mut || while_nothing_unloads(|| find_by_order(Family::Cxx)));
    BODIES.contain(address)
}

/// Whether an address lies in the library that has the next `malloc`, if that is not the C library itself.
pub(crate) fn in_library_behind_us(address: usize) -> bool {
    (BEHIND_US[0].load(Ordering::Relaxed)..BEHIND_US[1].load(Ordering::Relaxed)).contains(&address)
}

/// Whether another library's `calloc`, or `malloc` or `free`, stands in front of ours.
#[inline]
pub(crate) fn c_is_before_us() -> bool {
    C_IS_BEFORE_US.load(Ordering::Relaxed)
}

/// Whether C++ operators are only passed on.
#[inline]
pub(crate) fn cxx_is_before_us() -> bool {
    CXX_IS_BEFORE_US.load(Ordering::Relaxed)
}

/// Whether an address lies in the body of a C++ operator behind us.
pub(crate) fn in_operator_body(address: usize) -> bool {
    BODIES.contain(address)
}
