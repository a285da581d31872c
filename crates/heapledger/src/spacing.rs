//! Whether an allocator's blocks lie apart: where each has a granule of the index to itself, entering it is cheaper.
//!
//! Of glibc's `malloc` that is known, so of the system's allocator where it is that. Of others nothing is.
#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use heapledger_linux::loader;

/// The program's `malloc` is glibc's.
static IS_GLIBC: AtomicBool = AtomicBool::new(false);

/// Finds out whose `malloc` the program has: before anything is recorded.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn look() {
    let found = loader::modules().find(|module| module.symbol(b"malloc").is_some());
    IS_GLIBC.store(found.is_some_and(|module| module.name().to_bytes().ends_with(b"/libc.so.6")), Ordering::Relaxed);
}

const UNKNOWN: u8 = 0;
const APART: u8 = 1;
const PERHAPS_CLOSE: u8 = 2;

/// What is known of an allocator's blocks.
pub(crate) struct Spacing {
    is_system: fn() -> bool,
    found: AtomicU8,
}

impl Spacing {
    /// Of an allocator of this type.
    pub(crate) const fn of<A: 'static>() -> Spacing {
        Spacing { is_system: is_system::<A>, found: AtomicU8::new(UNKNOWN) }
    }

    /// Whether its blocks begin at least 32 bytes apart.
    #[inline(always)]
    pub(crate) fn is_apart(&self) -> bool {
        match self.found.load(Ordering::Relaxed) {
            UNKNOWN => self.find(),
            found => found == APART,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> bool {
        let is_apart = (self.is_system)() && IS_GLIBC.load(Ordering::Relaxed);
        self.found.store(if is_apart { APART } else { PERHAPS_CLOSE }, Ordering::Relaxed);
        is_apart
    }
}

impl fmt::Debug for Spacing {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("Spacing").field("is_apart", &self.is_apart()).finish()
    }
}

#[cfg(feature = "std")]
fn is_system<A: 'static>() -> bool {
    core::any::TypeId::of::<A>() == core::any::TypeId::of::<std::alloc::System>()
}

#[cfg(not(feature = "std"))]
fn is_system<A: 'static>() -> bool {
    // Nobody can name that one here.
    let _ = core::any::TypeId::of::<A>;
    false
}

#[cfg(all(test, feature = "std", target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn only_glibcs_own_are_apart() {
        look();
        assert!(Spacing::of::<std::alloc::System>().is_apart());
        let other = Spacing::of::<u8>();
        assert!(!other.is_apart() && !other.is_apart());
    }
}
