//! Who would have been called without us, and the library that has the blocks.
//!
//! Found when the library is loaded, or at the first call if one comes before that, by our own look-up over the loaded modules: `dlsym`
//! allocates and locks. Of a function with several versions it is the one that a new program is linked with.

use crate::list::{COUNT, Hook, NAMES};
use crate::memory;
use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_guard::judging::{self, Judging};
use heapledger_linux::loader::{Module, modules_after_us, modules_but_us};

/// The next definitions; 0: not known yet. The stubs read it.
pub(crate) static NEXT: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
/// Where the other library says what memory has blocks: its first address and how many bytes. 0: it is not there, or not known yet.
pub(crate) static RANGE: AtomicUsize = AtomicUsize::new(0);
/// The [`Judging`] that has it.
static JUDGING: AtomicUsize = AtomicUsize::new(0);
/// The C library's `__errno_location`.
static ERRNO: AtomicUsize = AtomicUsize::new(0);
/// Threads that look at this moment.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// The name of a function of the list.
pub(crate) fn name(hook: usize) -> &'static [u8] {
    NAMES.as_bytes().split(|byte| *byte == 0).nth(hook).unwrap_or_default()
}

/// The next definition of a function; 0 if it is not known.
pub(crate) fn known(hook: usize) -> usize {
    NEXT.get(hook).map_or(0, |place| place.load(Ordering::Relaxed))
}

/// The same, by name.
pub(crate) fn real(hook: Hook) -> usize {
    known(hook as usize)
}

/// The library that has the blocks.
#[inline(always)]
pub(crate) fn judging() -> Option<&'static Judging> {
    let address = JUDGING.load(Ordering::Acquire);
    // SAFETY: a static of that library, of which nobody ever takes a part away; its version was looked at.
    (address != 0).then(|| unsafe { &*(address as *const Judging) })
}

/// Has calls judged by another.
#[cfg(test)]
pub(crate) fn judge_with(judging: &'static Judging) {
    JUDGING.store(core::ptr::from_ref(judging) as usize, Ordering::Release);
}

/// Looks for all of them. Every thread that gets here at the same time finds and stores the same.
pub(crate) fn look() {
    LOOKING.fetch_add(1, Ordering::SeqCst);
    for (place, name) in NEXT.iter().zip(NAMES.as_bytes().split(|byte| *byte == 0)) {
        place.store(find(name), Ordering::Relaxed);
    }
    ERRNO.store(find(b"__errno_location"), Ordering::Relaxed);
    let there =
        modules_but_us().find_map(|module: Module| module.symbol(judging::SYMBOL)).map_or(0, |found| found.address);
    if there != 0 {
        // SAFETY: as in `judging`; the first two words stand there in every version.
        let judging = unsafe { &*(there as *const Judging) };
        if judging.is_known() {
            JUDGING.store(there, Ordering::Release);
            RANGE.store(judging.range().as_ptr() as usize, Ordering::Release);
        }
    }
    LOOKING.fetch_sub(1, Ordering::SeqCst);
}

/// Where the next definition of any function is; 0: there is none.
pub(crate) fn find(name: &[u8]) -> usize {
    modules_after_us().find_map(|module| module.symbol(name)).map_or(0, |found| found.address)
}

/// A stub does not know yet where to go on.
#[cold]
pub(crate) extern "C" fn ask(hook: usize) -> usize {
    let otherwise = || match memory::own(name(hook)) {
        0 => memory::nothing as *const () as usize,
        own => own,
    };
    if LOOKING.load(Ordering::SeqCst) != 0 {
        // Who looks calls some of them, by way of the stubs, too.
        let own = memory::own(name(hook));
        if own != 0 {
            return own;
        }
    }
    look();
    match known(hook) {
        0 => otherwise(),
        function => function,
    }
}

/// Runs what may change `errno`, which stays as it is.
pub(crate) fn with_errno<T>(work: impl FnOnce() -> T) -> T {
    let function = ERRNO.load(Ordering::Relaxed);
    if function == 0 {
        return work();
    }
    // SAFETY: the C library's function, which tells where the thread's number lies.
    let place = unsafe { core::mem::transmute::<usize, extern "C" fn() -> *mut i32>(function)() };
    // SAFETY: there it lies, as long as the thread lives.
    let before = unsafe { place.read() };
    let result = work();
    // SAFETY: the same.
    unsafe { place.write(before) };
    result
}

// SAFETY of these: the function is the C library's of that name, which has this shape; its arguments are the program's, or as good.

/// Calls a real function; 0 if it is not known.
pub(crate) fn call(hook: Hook, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    type Real = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;
    match real(hook) {
        0 => 0,
        // SAFETY: above.
        function => unsafe { core::mem::transmute::<usize, Real>(function)(a, b, c, d, e, f) },
    }
}
