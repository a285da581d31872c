//! Which function allocated or freed a block: one list, from which everything else follows.

/// A function of the malloc family, by its number in the ledger.
///
/// Numbers never change their meaning; a reader shows one that it does not know as `kind N`.
///
/// Some numbers name one function as the call that began a block, and another as the call that ended it: `pvPortMalloc`
/// and `vPortFree`. Readers have the second as [`Kind::ended_by`] gives it, so that each function is a kind of its own;
/// recorders have numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Kind(pub u8);

/// Kinds are narrower than a byte in a record: numbers run from 0 to `KIND_LIMIT - 1`.
pub const KIND_LIMIT: usize = 64;

/// What a reader adds to the number of a function that ends blocks, if the same number begins blocks as another one.
const ENDS: u8 = KIND_LIMIT as u8;

macro_rules! kinds {
    ($($(#[$doc:meta])* $id:ident = $number:literal, $name:literal, $allocates:literal, $frees:literal;)*) => {
        impl Kind {
            $($(#[$doc])* pub const $id: Kind = Kind($number);)*

            /// Every kind that this version knows, by number.
            pub const ALL: &'static [Kind] = &[$(Kind::$id),*];

            /// The name that a person knows: `malloc`, `new[]`, `delete(size)`; `None` if unknown.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($name),)* _ => None }
            }

            /// Whether a block can begin with this call.
            pub const fn allocates(self) -> bool {
                match self.0 { $($number => $allocates,)* _ => false }
            }

            /// Whether a block can end with this call.
            pub const fn frees(self) -> bool {
                match self.0 { $($number => $frees,)* _ => false }
            }
        }
    };
}

kinds! {
    /// Nothing recorded.
    NONE = 0, "unknown", false, false;
    /// `malloc`
    MALLOC = 1, "malloc", true, false;
    /// `calloc`
    CALLOC = 2, "calloc", true, false;
    /// `realloc`, as the call that gave the block and as the call that took it.
    REALLOC = 3, "realloc", true, true;
    /// `reallocarray`, likewise.
    REALLOCARRAY = 4, "reallocarray", true, true;
    /// `posix_memalign`
    POSIX_MEMALIGN = 5, "posix_memalign", true, false;
    /// `aligned_alloc`
    ALIGNED_ALLOC = 6, "aligned_alloc", true, false;
    /// `memalign`
    MEMALIGN = 7, "memalign", true, false;
    /// `valloc`
    VALLOC = 8, "valloc", true, false;
    /// `pvalloc`
    PVALLOC = 9, "pvalloc", true, false;
    /// Rust's `alloc`.
    RUST_ALLOC = 10, "__rust_alloc", true, false;
    /// Rust's `alloc_zeroed`.
    RUST_ALLOC_ZEROED = 11, "__rust_alloc_zeroed", true, false;
    /// Rust's `realloc`, as the call that gave the block and as the call that took it.
    RUST_REALLOC = 12, "__rust_realloc", true, true;
    /// newlib's `malloc`.
    MALLOC_R = 13, "_malloc_r", true, false;
    /// newlib's `calloc`.
    CALLOC_R = 14, "_calloc_r", true, false;
    /// newlib's `realloc`, both ways.
    REALLOC_R = 15, "_realloc_r", true, true;
    /// `operator new(size)`
    NEW = 16, "new", true, false;
    /// `operator new[](size)`
    NEW_ARRAY = 17, "new[]", true, false;
    /// `operator new(size, nothrow)`
    NEW_NOTHROW = 18, "new(nothrow)", true, false;
    /// `operator new[](size, nothrow)`
    NEW_ARRAY_NOTHROW = 19, "new[](nothrow)", true, false;
    /// `operator new(size, align)`
    NEW_ALIGN = 20, "new(align)", true, false;
    /// `operator new[](size, align)`
    NEW_ARRAY_ALIGN = 21, "new[](align)", true, false;
    /// `operator new(size, align, nothrow)`
    NEW_ALIGN_NOTHROW = 22, "new(align,nothrow)", true, false;
    /// `operator new[](size, align, nothrow)`
    NEW_ARRAY_ALIGN_NOTHROW = 23, "new[](align,nothrow)", true, false;
    /// newlib's `memalign`.
    MEMALIGN_R = 24, "_memalign_r", true, false;
    /// FreeRTOS' allocation function.
    PV_PORT_MALLOC = 25, "pvPortMalloc", true, false;
    /// FreeRTOS' `calloc`.
    PV_PORT_CALLOC = 26, "pvPortCalloc", true, false;
    /// ESP-IDF's allocation by capabilities; its `_default` and `_prefer` forms too.
    HEAP_CAPS_MALLOC = 27, "heap_caps_malloc", true, false;
    /// ESP-IDF's `calloc` by capabilities, likewise.
    HEAP_CAPS_CALLOC = 28, "heap_caps_calloc", true, false;
    /// ESP-IDF's `realloc` by capabilities, likewise; both ways.
    HEAP_CAPS_REALLOC = 29, "heap_caps_realloc", true, true;
    /// ESP-IDF's aligned allocation.
    HEAP_CAPS_ALIGNED_ALLOC = 30, "heap_caps_aligned_alloc", true, false;
    /// ESP-IDF's aligned `calloc`.
    HEAP_CAPS_ALIGNED_CALLOC = 31, "heap_caps_aligned_calloc", true, false;
    /// `free`
    FREE = 32, "free", false, true;
    /// `cfree` (glibc before 2.26)
    CFREE = 33, "cfree", false, true;
    /// `free_sized` (C23)
    FREE_SIZED = 34, "free_sized", false, true;
    /// `free_aligned_sized` (C23)
    FREE_ALIGNED_SIZED = 35, "free_aligned_sized", false, true;
    /// Zephyr's `malloc`.
    K_MALLOC = 36, "k_malloc", true, false;
    /// Zephyr's `calloc`.
    K_CALLOC = 37, "k_calloc", true, false;
    /// Zephyr's `realloc`, both ways.
    K_REALLOC = 38, "k_realloc", true, true;
    /// Zephyr's aligned allocation.
    K_ALIGNED_ALLOC = 39, "k_aligned_alloc", true, false;
    /// `operator delete(pointer)`
    DELETE = 40, "delete", false, true;
    /// `operator delete[](pointer)`
    DELETE_ARRAY = 41, "delete[]", false, true;
    /// `operator delete(pointer, nothrow)`
    DELETE_NOTHROW = 42, "delete(nothrow)", false, true;
    /// `operator delete[](pointer, nothrow)`
    DELETE_ARRAY_NOTHROW = 43, "delete[](nothrow)", false, true;
    /// `operator delete(pointer, size)`
    DELETE_SIZED = 44, "delete(size)", false, true;
    /// `operator delete[](pointer, size)`
    DELETE_ARRAY_SIZED = 45, "delete[](size)", false, true;
    /// `operator delete(pointer, align)`
    DELETE_ALIGN = 46, "delete(align)", false, true;
    /// `operator delete[](pointer, align)`
    DELETE_ARRAY_ALIGN = 47, "delete[](align)", false, true;
    /// `operator delete(pointer, size, align)`
    DELETE_SIZED_ALIGN = 48, "delete(size,align)", false, true;
    /// `operator delete[](pointer, size, align)`
    DELETE_ARRAY_SIZED_ALIGN = 49, "delete[](size,align)", false, true;
    /// `operator delete(pointer, align, nothrow)`
    DELETE_ALIGN_NOTHROW = 50, "delete(align,nothrow)", false, true;
    /// `operator delete[](pointer, align, nothrow)`
    DELETE_ARRAY_ALIGN_NOTHROW = 51, "delete[](align,nothrow)", false, true;
    /// The allocator handed an address out again although no free of it was seen.
    UNSEEN = 62, "unseen free", false, true;
    /// A pool of fixed blocks, or another allocator of the program's own: its heap says which.
    POOL_ALLOC = 63, "pool_alloc", true, false;
    /// Rust's `dealloc`.
    RUST_DEALLOC = 74, "__rust_dealloc", false, true;
    /// newlib's `free`.
    FREE_R = 77, "_free_r", false, true;
    /// FreeRTOS' `free`.
    V_PORT_FREE = 89, "vPortFree", false, true;
    /// ESP-IDF's `free`.
    HEAP_CAPS_FREE = 91, "heap_caps_free", false, true;
    /// ESP-IDF's `free` of an aligned block.
    HEAP_CAPS_ALIGNED_FREE = 94, "heap_caps_aligned_free", false, true;
    /// Zephyr's `free`.
    K_FREE = 100, "k_free", false, true;
    /// The counterpart of `pool_alloc`.
    POOL_FREE = 127, "pool_free", false, true;
}

/// Kinds that a ledger names itself, in keys of `process`: see [`crate::session::process::KIND_PREFIX`].
pub const CUSTOM_FIRST: u8 = 52;
/// The last of them.
pub const CUSTOM_LAST: u8 = 61;

/// Numbers that end blocks as another function than the one that they begin blocks as.
const PAIRED: u64 = {
    let mut numbers = 0;
    let mut rest = Kind::ALL;
    while let [first, others @ ..] = rest {
        if first.0 >= ENDS {
            numbers |= 1 << (first.0 & (ENDS - 1));
        }
        rest = others;
    }
    numbers
};

impl Kind {
    /// The function that ends a block by this number: field `FreedBy`, and the second half of the tallies by kind.
    #[inline]
    pub const fn ended_by(number: u8) -> Kind {
        if number < ENDS && PAIRED >> number & 1 != 0 { Kind(number | ENDS) } else { Kind(number) }
    }

    /// Its number in the ledger, below [`KIND_LIMIT`].
    #[inline]
    pub const fn number(self) -> u8 {
        self.0 & (ENDS - 1)
    }

    /// Whether a call of it ends one block and begins another, as `realloc` does.
    pub const fn reallocates(self) -> bool {
        self.allocates() && self.frees()
    }

    /// Whether the ledger itself says what it is called.
    pub const fn is_custom(self) -> bool {
        matches!(self.0, CUSTOM_FIRST..=CUSTOM_LAST)
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "kind {}", self.0),
        }
    }
}

impl core::fmt::Debug for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

// Each number fits, and one that ends blocks as another function begins some.
const _: () = {
    let mut rest = Kind::ALL;
    while let [first, others @ ..] = rest {
        let of_both = first.0 >= ENDS;
        assert!((first.0 as usize) < 2 * KIND_LIMIT && !first.is_custom());
        assert!(!of_both || first.frees() && !first.allocates() && Kind(first.number()).allocates());
        assert!(!of_both || !Kind(first.number()).frees());
        rest = others;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_end_blocks_as_another_function() {
        assert_eq!(Kind::ended_by(25), Kind::V_PORT_FREE);
        assert_eq!(Kind::V_PORT_FREE.number(), Kind::PV_PORT_MALLOC.0);
        assert_eq!([3, 12, 32, 52, 62].map(Kind::ended_by), [3, 12, 32, 52, 62].map(Kind));
        for kind in Kind::ALL.iter().filter(|kind| kind.frees()) {
            assert_eq!(Kind::ended_by(kind.number()), *kind, "what ends a block is known by its number");
        }
        assert_eq!(Kind::ended_by(Kind::ended_by(63).0), Kind::POOL_FREE);
    }

    #[test]
    fn all_numbers_are_shared_out() {
        for number in 1..KIND_LIMIT as u8 {
            let kind = Kind(number);
            assert!(kind.name().is_some() != kind.is_custom(), "{number}");
            assert!(kind.allocates() || kind.frees() || kind.is_custom(), "{number}");
        }
    }
}
