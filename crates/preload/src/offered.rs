//! What differs in a stub between the library, which exports it, and the archive, where the linker's `--wrap` leads to it.
#![forbid(unsafe_code)]

/// What a stub is called in the archive, where the linker's `--wrap` leads to it (`launch/build/wrap.rs`).
#[cfg(feature = "wrapped")]
macro_rules! wrap_name {
    ($symbol:literal) => {
        concat!(
            ".globl heapledger_wrap_",
            $symbol,
            "\n.hidden heapledger_wrap_",
            $symbol,
            "\nheapledger_wrap_",
            $symbol,
            ":"
        )
    };
}
#[cfg(not(feature = "wrapped"))]
macro_rules! wrap_name {
    ($symbol:literal) => {
        ""
    };
}

/// Where nothing is recorded any more, a stub of the library for `--wrap` jumps on: whoever records instead sees the program's frames.
#[cfg(feature = "wrapped")]
macro_rules! pass_where_over {
    () => {
        "mov rax, [rip + {bypass} + 8 * {index}]
        test rax, rax
        je 9f
        jmp rax
        9:"
    };
}
#[cfg(not(feature = "wrapped"))]
macro_rules! pass_where_over {
    () => {
        "/* {bypass} {index} */"
    };
}

/// A stub, if this library has it: `--wrap` is for functions that give and take blocks.
#[cfg(feature = "wrapped")]
macro_rules! offered {
    (Loader $($stub:tt)*) => {};
    ($family:ident $stub:ident $name:ident $($arguments:tt)*) => {
        crate::stubs::$stub!($($arguments)*);
        const _: () = {
            // Nothing of ours calls it.
            #[used]
            static KEPT: extern "C" fn() = $name;
        };
    };
}
#[cfg(not(feature = "wrapped"))]
macro_rules! offered {
    ($family:ident $stub:ident $name:ident $($arguments:tt)*) => {
        crate::stubs::$stub!($($arguments)*);
    };
}

/// Where it is, in the archive.
#[cfg(feature = "wrapped")]
macro_rules! place {
    (Loader $name:ident) => {
        None
    };
    ($family:ident $name:ident) => {
        Some($name as extern "C" fn())
    };
}

#[cfg(feature = "wrapped")]
pub(crate) use place;
pub(crate) use {offered, pass_where_over, wrap_name};
