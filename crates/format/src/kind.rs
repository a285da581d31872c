//! Which function allocated or freed a block: one list, from which everything else follows.

/// A function of the malloc family, by its number in the ledger.
///
/// Numbers never change their meaning; a reader shows one that it does not know as `kind N`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

/// Kinds are narrower than a byte in a record: numbers run from 0 to `KIND_LIMIT - 1`.
pub const KIND_LIMIT: usize = 64;

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
    NONE = 0, "none", false, false;
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
    /// `free`
    FREE = 32, "free", false, true;
    /// `cfree` (glibc before 2.26)
    CFREE = 33, "cfree", false, true;
    /// `free_sized` (C23)
    FREE_SIZED = 34, "free_sized", false, true;
    /// `free_aligned_sized` (C23)
    FREE_ALIGNED_SIZED = 35, "free_aligned_sized", false, true;
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

const _: () = {
    let mut rest = Kind::ALL;
    while let [first, others @ ..] = rest {
        assert!((first.0 as usize) < KIND_LIMIT);
        rest = others;
    }
};
