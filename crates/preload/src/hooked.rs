//! The one list of replaced functions. Exports, look-up and bookkeeping all follow from it.

use heapledger_format::Kind;

/// What the arguments and the result of a function mean. Numbers are argument positions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Returns a block of so many bytes.
    Block(usize),
    /// Returns a block of so many times so many bytes.
    BlockOfItems(usize, usize),
    /// Stores the block where argument 0 points and returns 0.
    StoresBlock(usize),
    /// Changes the block of argument 0 to so many bytes.
    Resizes(usize),
    /// Changes the block of argument 0 to so many times so many bytes.
    ResizesItems(usize, usize),
    /// Frees the block of argument 0.
    Frees,
    /// Asks about a block; it is not recorded.
    Asks,
    /// Unloads code.
    Unloads,
    /// Is looked at before it is made: the stub jumps on, and learns nothing of what comes of it.
    JumpsOn(Before),
}

/// What is looked at before a stub jumps on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Loads code.
    Opens,
    /// Takes memory away, or access to it.
    Remaps,
    /// Says what the process may do from now on.
    Restricts,
    /// Says what becomes of signals.
    Signals,
    /// Ends the process.
    Ends,
}

/// Whose definition is the next in line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// All of one module, the first behind us that defines `malloc`.
    C,
    /// The first definition behind us.
    Cxx,
    /// The C library's.
    Loader,
}

#[derive(Clone, Copy)]
pub(crate) struct Hooked {
    pub(crate) symbol: &'static [u8],
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) family: Family,
}

impl Hooked {
    /// Whether the real function calls another replaced one for this call's sake, as glibc's and libstdc++'s do.
    pub(crate) fn always_calls_others(&self) -> bool {
        match self.shape {
            Shape::Block(_) => self.family == Family::Cxx,
            Shape::Frees => self.kind != Kind::FREE,
            Shape::ResizesItems(..) => true,
            Shape::Resizes(_) | Shape::BlockOfItems(..) | Shape::StoresBlock(_) => false,
            Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => false,
        }
    }
}

/// A row of the list, where its number is known when compiling.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
pub(crate) const fn hooked_at(hook: usize) -> Hooked {
    HOOKED[hook]
}

macro_rules! hooked {
    ($($stub:ident $(($size:literal))? $name:ident = $symbol:literal: $kind:ident, $shape:expr, $family:ident;)*) => {
        /// The replaced functions.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(clippy::upper_case_acronyms, reason = "names of C++ operators")]
        pub(crate) enum Hook { $($name),* }

        pub(crate) const HOOKED: &[Hooked] = &[$(Hooked {
            symbol: $symbol.as_bytes(),
            kind: Kind::$kind,
            shape: $shape,
            family: Family::$family,
        }),*];

        mod exports {
            use super::Hook;
            $(crate::offered::offered!($family $stub $name $($size,)? $name, $symbol, Hook::$name as usize);)*

            /// Where they are.
            #[cfg(feature = "wrapped")]
            pub(crate) static STUBS: [Option<extern "C" fn()>; super::HOOKED.len()] =
                [$(crate::offered::place!($family $name)),*];
        }
        #[cfg(feature = "wrapped")]
        pub(crate) use exports::STUBS;

        // What the linker's `--wrap` calls the real ones: 0 where it was not asked for.
        #[cfg(feature = "wrapped")]
        core::arch::global_asm!(
            ".pushsection .data.rel.ro.heapledger_real,\"aw\",@progbits",
            ".globl heapledger_real",
            ".hidden heapledger_real",
            ".p2align 3",
            "heapledger_real:",
            $(concat!(".weak __real_", $symbol, "\n.quad __real_", $symbol),)*
            // Whoever has us has those of C, which libraries may ask for that are linked after us.
            ".quad __wrap_malloc",
            ".popsection",
        );
    };
}

use Before::*;
use Shape::*;
hooked! {
    block_stub("mov r11, rdi") Malloc = "malloc": MALLOC, Block(0), C;
    block_stub("mov r11, rdi\nimul r11, rsi\njo 4f") Calloc = "calloc": CALLOC, BlockOfItems(0, 1), C;
    realloc_stub Realloc = "realloc": REALLOC, Resizes(1), C;
    call_stub Reallocarray = "reallocarray": REALLOCARRAY, ResizesItems(1, 2), C;
    call_stub PosixMemalign = "posix_memalign": POSIX_MEMALIGN, StoresBlock(2), C;
    block_stub("mov r11, rsi") AlignedAlloc = "aligned_alloc": ALIGNED_ALLOC, Block(1), C;
    block_stub("mov r11, rsi") Memalign = "memalign": MEMALIGN, Block(1), C;
    call_stub Valloc = "valloc": VALLOC, Block(0), C;
    call_stub Pvalloc = "pvalloc": PVALLOC, Block(0), C;
    free_stub Free = "free": FREE, Frees, C;
    call_stub Cfree = "cfree": CFREE, Frees, C;
    call_stub FreeSized = "free_sized": FREE_SIZED, Frees, C;
    call_stub FreeAlignedSized = "free_aligned_sized": FREE_ALIGNED_SIZED, Frees, C;
    jump_stub MallocUsableSize = "malloc_usable_size": NONE, Asks, C;

    new_stub New = "_Znwm": NEW, Block(0), Cxx;
    new_stub NewArray = "_Znam": NEW_ARRAY, Block(0), Cxx;
    new_stub NewNothrow = "_ZnwmRKSt9nothrow_t": NEW_NOTHROW, Block(0), Cxx;
    new_stub NewArrayNothrow = "_ZnamRKSt9nothrow_t": NEW_ARRAY_NOTHROW, Block(0), Cxx;
    call_stub NewAlign = "_ZnwmSt11align_val_t": NEW_ALIGN, Block(0), Cxx;
    call_stub NewArrayAlign = "_ZnamSt11align_val_t": NEW_ARRAY_ALIGN, Block(0), Cxx;
    call_stub NewAlignNothrow = "_ZnwmSt11align_val_tRKSt9nothrow_t": NEW_ALIGN_NOTHROW, Block(0), Cxx;
    call_stub NewArrayAlignNothrow = "_ZnamSt11align_val_tRKSt9nothrow_t": NEW_ARRAY_ALIGN_NOTHROW, Block(0), Cxx;
    delete_stub Delete = "_ZdlPv": DELETE, Frees, Cxx;
    delete_stub DeleteArray = "_ZdaPv": DELETE_ARRAY, Frees, Cxx;
    delete_stub DeleteNothrow = "_ZdlPvRKSt9nothrow_t": DELETE_NOTHROW, Frees, Cxx;
    delete_stub DeleteArrayNothrow = "_ZdaPvRKSt9nothrow_t": DELETE_ARRAY_NOTHROW, Frees, Cxx;
    delete_stub DeleteSized = "_ZdlPvm": DELETE_SIZED, Frees, Cxx;
    delete_stub DeleteArraySized = "_ZdaPvm": DELETE_ARRAY_SIZED, Frees, Cxx;
    call_stub DeleteAlign = "_ZdlPvSt11align_val_t": DELETE_ALIGN, Frees, Cxx;
    call_stub DeleteArrayAlign = "_ZdaPvSt11align_val_t": DELETE_ARRAY_ALIGN, Frees, Cxx;
    call_stub DeleteSizedAlign = "_ZdlPvmSt11align_val_t": DELETE_SIZED_ALIGN, Frees, Cxx;
    call_stub DeleteArraySizedAlign = "_ZdaPvmSt11align_val_t": DELETE_ARRAY_SIZED_ALIGN, Frees, Cxx;
    call_stub DeleteAlignNothrow = "_ZdlPvSt11align_val_tRKSt9nothrow_t": DELETE_ALIGN_NOTHROW, Frees, Cxx;
    call_stub DeleteArrayAlignNothrow = "_ZdaPvSt11align_val_tRKSt9nothrow_t": DELETE_ARRAY_ALIGN_NOTHROW, Frees, Cxx;

    // Looks at the flags and jumps on: the loader takes its return address for who is asking.
    open_stub Dlopen = "dlopen": NONE, JumpsOn(Opens), Loader;
    call_stub Dlclose = "dlclose": NONE, Unloads, Loader;
    // With `MAP_FIXED`.
    remap_stub Mmap = "mmap": NONE, JumpsOn(Remaps), Loader;
    remap_stub Mmap64 = "mmap64": NONE, JumpsOn(Remaps), Loader;
    remap_stub Munmap = "munmap": NONE, JumpsOn(Remaps), Loader;
    remap_stub Mprotect = "mprotect": NONE, JumpsOn(Remaps), Loader;
    remap_stub Mremap = "mremap": NONE, JumpsOn(Remaps), Loader;
    // Limits, locks, filters: see `restrictions`.
    watch_stub Setrlimit = "setrlimit": NONE, JumpsOn(Restricts), Loader;
    watch_stub Setrlimit64 = "setrlimit64": NONE, JumpsOn(Restricts), Loader;
    watch_stub Prlimit = "prlimit": NONE, JumpsOn(Restricts), Loader;
    watch_stub Prlimit64 = "prlimit64": NONE, JumpsOn(Restricts), Loader;
    watch_stub Mlockall = "mlockall": NONE, JumpsOn(Restricts), Loader;
    watch_stub Prctl = "prctl": NONE, JumpsOn(Restricts), Loader;
    watch_stub Syscall = "syscall": NONE, JumpsOn(Restricts), Loader;
    // Who is told of faults: see `signals`.
    watch_stub Sigaction = "sigaction": NONE, JumpsOn(Signals), Loader;
    watch_stub Signal = "signal": NONE, JumpsOn(Signals), Loader;
    watch_stub BsdSignal = "bsd_signal": NONE, JumpsOn(Signals), Loader;
    watch_stub Ssignal = "ssignal": NONE, JumpsOn(Signals), Loader;
    watch_stub SysvSignal = "sysv_signal": NONE, JumpsOn(Signals), Loader;
    watch_stub UnderSysvSignal = "__sysv_signal": NONE, JumpsOn(Signals), Loader;
    watch_stub Sigprocmask = "sigprocmask": NONE, JumpsOn(Signals), Loader;
    watch_stub PthreadSigmask = "pthread_sigmask": NONE, JumpsOn(Signals), Loader;
    // Without the handlers of `exit`.
    watch_stub UnderExit = "_exit": NONE, JumpsOn(Ends), Loader;
    watch_stub CapitalExit = "_Exit": NONE, JumpsOn(Ends), Loader;
    watch_stub QuickExit = "quick_exit": NONE, JumpsOn(Ends), Loader;
    // Unloads conversion modules without going through `dlclose`.
    call_stub IconvClose = "iconv_close": NONE, Unloads, Loader;
}
