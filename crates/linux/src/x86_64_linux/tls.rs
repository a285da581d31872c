//! Three words per thread, in static TLS with the initial-exec model.
//!
//! Stable Rust compiles `thread_local!` in a shared library to a call of `__tls_get_addr`, which
//! costs more than the rest of a hook and may itself allocate. So the words are declared in
//! assembly and read through their offsets from the thread pointer. They are zero in a new thread, and
//! there is no destructor.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.heapledger_thread_word,\"awT\",@nobits",
    ".p2align 3",
    ".hidden heapledger_thread_word",
    ".globl heapledger_thread_word",
    ".type heapledger_thread_word,@object",
    ".size heapledger_thread_word, 8",
    "heapledger_thread_word: .zero 8",
    ".hidden heapledger_thread_gap",
    ".globl heapledger_thread_gap",
    ".type heapledger_thread_gap,@object",
    ".size heapledger_thread_gap, 8",
    "heapledger_thread_gap: .zero 8",
    ".hidden heapledger_thread_count",
    ".globl heapledger_thread_count",
    ".type heapledger_thread_count,@object",
    ".size heapledger_thread_count, 8",
    "heapledger_thread_count: .zero 8",
    ".popsection",
);

/// How a word that is declared above is read and set.
macro_rules! word {
    ($symbol:literal, $(#[$get_doc:meta])* $get:ident, $(#[$set_doc:meta])* $set:ident) => {
        $(#[$get_doc])*
        #[inline(always)]
        pub fn $get() -> usize {
            let value: usize;
            // SAFETY: reads a word declared above, which exists as long as the thread does.
            unsafe {
                asm!(
                    concat!("mov {v}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov {v}, qword ptr fs:[{v}]",
                    v = out(reg) value, options(nostack, preserves_flags, readonly)
                );
            }
            value
        }

        $(#[$set_doc])*
        #[inline(always)]
        pub fn $set(value: usize) {
            // SAFETY: writes a word declared above, which belongs to the calling thread alone.
            unsafe {
                asm!(
                    concat!("mov {t}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{t}], {v}",
                    t = out(reg) _, v = in(reg) value, options(nostack, preserves_flags)
                );
            }
        }
    };
}

word!(
    "heapledger_thread_word",
    /// The calling thread's word; 0 before the first [`set`].
    get,
    /// Sets the calling thread's word.
    set
);
word!(
    "heapledger_thread_gap",
    /// The calling thread's second word: bytes until the next sample, 0 where nothing is sampled. The hooks' entry points count
    /// it down by its symbol, `heapledger_thread_gap`.
    gap,
    /// Sets the calling thread's second word.
    set_gap
);
word!(
    "heapledger_thread_count",
    /// The calling thread's third word: where its calls are counted, if they are.
    count,
    /// Sets the calling thread's third word.
    set_count
);

/// The thread pointer: address of the thread's control block, what glibc's `pthread_self` returns.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let value: usize;
    // SAFETY: the x86-64 ABI keeps the thread pointer itself in the first word of the block.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) value, options(nostack, preserves_flags, readonly)) };
    value
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_thread_has_its_own_word() {
        super::set(7);
        std::thread::spawn(|| {
            assert_eq!(super::get(), 0);
            super::set(9);
            assert_eq!(super::get(), 9);
        })
        .join()
        .expect("thread");
        assert_eq!(super::get(), 7);
        super::set(0);
    }
}
