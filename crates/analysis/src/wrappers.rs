//! Functions that allocate for others: nobody wants to know that all memory was allocated by `xmalloc`.

use crate::{NamedFrame, NamedStack};

/// How names of such functions end, letter case aside: `xmalloc`, `PyMem_RawMalloc`, `git__strdup`, `zmalloc_usable`.
const ENDINGS: &[&str] = &[
    "malloc",
    "malloc0",
    "malloc_n",
    "calloc",
    "realloc",
    "zalloc",
    "mallocarray",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "strdup",
    "strndup",
    "memdup",
    "asprintf",
    "malloc_usable",
    "calloc_usable",
    "realloc_usable",
    "malloc_internal",
    "calloc_internal",
    "realloc_internal",
    "alloc_impl",
];

/// How they begin: memory managers of language runtimes, and the innermost parts of containers.
const BEGINNINGS: &[&str] = &[
    // glibc's and C++'s own
    "operator new",
    "std::allocator",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "std::__allocate_guarded",
    "std::__detail::_Hashtable_alloc",
    "__gnu_cxx::__alloc_traits",
    // Rust
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "__rustc::__r",
    "alloc::alloc::",
    "<alloc::alloc::Global",
    "alloc::raw_vec::",
    "<alloc::raw_vec::",
    "alloc::boxed::Box<",
    "std::sys::alloc",
    // Python
    "_PyMem_",
    "PyMem_",
    "pymalloc_",
    "new_arena",
    "allocate_from_new_pool",
    "_PyObject_GC_",
    "gc_alloc",
    "PyType_GenericAlloc",
    "_PyType_AllocNoTrack",
    // Perl, SQLite, others
    "Perl_safesys",
    "Perl_more_bodies",
    "sqlite3Mem",
    "mallocWithAlarm",
    "sqlite3DbMalloc",
    "sqlite3DbRealloc",
    "dbMallocRawFinish",
    "dbReallocFinish",
    "sqlite3DbStrDup",
    "jv_mem_",
    "g_slice_alloc",
    "ztrymalloc",
    "ztrycalloc",
    "ztryrealloc",
];

/// Parts of names of C++ containers' own allocation steps.
const MIDDLES: &[&str] =
    &["::_M_allocate", "::_M_create", "::_M_get_node", "::_M_allocate_node", "::_M_new_elements_at"];

/// Whether a function of this name allocates for whoever calls it.
pub fn is_wrapper(function: &str) -> bool {
    if BEGINNINGS.iter().any(|beginning| function.starts_with(beginning)) {
        return true;
    }
    // What a compiler made of one function has a tail: `xmalloc.part.0`, `xmalloc.cold`.
    let plain = function.split('.').next().unwrap_or(function);
    let ends = |ending: &&str| {
        let at = plain.len().checked_sub(ending.len());
        at.and_then(|at| plain.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    ENDINGS.iter().any(ends) || MIDDLES.iter().any(|middle| function.contains(middle))
}

/// The innermost frame that is no wrapper: who wanted the memory. The innermost of all if there are only wrappers.
pub fn owner(stack: &NamedStack) -> Option<&NamedFrame> {
    let asks = |frame: &&NamedFrame| frame.function.as_deref().is_none_or(|function| !is_wrapper(function));
    stack.frames.iter().find(asks).or_else(|| stack.frames.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &[Option<&str>]) -> NamedStack {
        let frame =
            |function: &Option<&str>| NamedFrame { function: function.map(Into::into), ..NamedFrame::default() };
        NamedStack { frames: functions.iter().map(frame).collect(), damaged: false }
    }

    #[test]
    fn who_allocates_for_others() {
        for name in [
            "malloc",
            "xmalloc",
            "xmalloc.part.0",
            "_PyObject_Malloc",
            "PyMem_RawMalloc",
            "Perl_safesysmalloc",
            "zmalloc",
            "zmalloc_usable",
            "operator new(unsigned long)",
            "git__strdup",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "std::vector<int, std::allocator<int> >::_M_allocate(unsigned long)",
            "g_malloc0",
            "__vasprintf",
            "CRYPTO_zalloc",
        ] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in
            ["main", "createStringObject", "alloc", "malloc_stats_print", "dictAdd", "", "größe", "PyList_Append"]
        {
            assert!(!is_wrapper(name), "{name}");
        }
    }

    #[test]
    fn the_owner_is_the_first_who_wanted_memory() {
        let of = |functions: &[Option<&str>]| owner(&stack(functions)).and_then(|frame| frame.function.clone());
        assert_eq!(of(&[Some("xmalloc"), Some("read_line"), Some("main")]).as_deref(), Some("read_line"));
        assert_eq!(of(&[Some("xmalloc"), Some("xcalloc")]).as_deref(), Some("xmalloc"));
        assert_eq!(of(&[Some("xmalloc"), None, Some("main")]), None, "code without a name may be the owner");
        assert_eq!(of(&[]), None);
    }
}
