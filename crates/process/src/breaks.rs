//! Empty functions that are called when something has happened: for a debugger to break on.
//!
//! They stand in programs under these names. (Their names are exported, which only a function outside of safe Rust's rules may be.)

macro_rules! breaks {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[inline(never)]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() {
                // Something that the compiler cannot take away, nor fold with the others.
                core::hint::black_box(stringify!($name).len());
            }
        )*
    };
}

breaks! {
    /// The history of frees is full: from now on its oldest entries make place for newer ones. Called again whenever as many more
    /// have been entered as it holds, before the first of them goes.
    heapledger_break_overflow
    /// A call gave no block.
    heapledger_break_refused
    /// An error was entered, or found again: something was done to a block that must not be, or a call gave none.
    heapledger_error
    /// Live bytes have passed a limit that the program has set.
    heapledger_break_threshold
}
