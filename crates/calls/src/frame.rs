//! What a stub leaves on its stack for the functions that it calls.
#![forbid(unsafe_code)]

/// The caller's registers. First those that hold arguments, in the order in which `va_arg` reads them.
#[repr(C, align(16))]
pub(crate) struct Frame {
    /// `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    pub(crate) words: [usize; 6],
    /// `xmm0` to `xmm7`, in stubs of functions that take any number of arguments.
    pub(crate) vectors: [u128; 8],
    /// `rax`: how many of these there are, then the result.
    pub(crate) rax: usize,
    pub(crate) unused: usize,
    /// Return address, stack pointer behind it, `rbp`, `rbx`, `r12` to `r15`.
    pub(crate) registers: [u64; 8],
}

pub(crate) const FRAME_BYTES: usize = 256;
pub(crate) const RAX: usize = 176;
pub(crate) const REGISTERS: usize = 192;

const _: () = assert!(
    size_of::<Frame>() == FRAME_BYTES
        && core::mem::offset_of!(Frame, rax) == RAX
        && core::mem::offset_of!(Frame, registers) == REGISTERS
        && core::mem::offset_of!(Frame, vectors) == 48
);

impl Frame {
    /// Where arguments lie that found no register.
    pub(crate) fn stack(&self) -> usize {
        let [_, stack, ..] = self.registers;
        stack as usize
    }

    /// One of the first six arguments.
    #[inline(always)]
    pub(crate) fn argument(&self, index: usize) -> usize {
        self.words.get(index).copied().unwrap_or(0)
    }
}
