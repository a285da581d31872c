//! `memcpy` and its like, for the compiler's own use in this library.
//!
//! Left undefined, they would be bound lazily to whatever the program defines, which can be anything
//! (a sanitizer's, a profiler's), and the binding would run in the middle of a hook. None of them moves the stack pointer, which their
//! call-frame information says: a signal may come in, whose handler allocates.

use core::arch::global_asm;

// Of several object files one has them for the others. In the archive, which is one, they stay inside: the program has its own.
#[cfg(not(feature = "wrapped"))]
global_asm!(
    ".hidden memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
);

global_asm!(
    ".pushsection .text.heapledger_memory,\"ax\",@progbits",
    ".p2align 4",
    "memmove:",
    ".cfi_startproc",
    "mov rax, rdi",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jae 2f", // not overlapping, or the destination lies below: forwards
    "mov rcx, rdx",
    "lea rsi, [rsi + rcx - 1]",
    "lea rdi, [rdi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".cfi_endproc",
    ".p2align 4",
    "memcpy:",
    ".cfi_startproc",
    "mov rax, rdi",
    "2:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".cfi_endproc",
    ".p2align 4",
    "memset:",
    ".cfi_startproc",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".cfi_endproc",
    ".p2align 4",
    "bcmp:",
    "memcmp:",
    ".cfi_startproc",
    "xor eax, eax",
    "mov rcx, rdx",
    "test rcx, rcx",
    "je 3f",
    "repe cmpsb",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub ecx, eax",
    "mov eax, ecx",
    "3:",
    "ret",
    ".cfi_endproc",
    ".p2align 4",
    "strlen:",
    ".cfi_startproc",
    "xor eax, eax",
    "4:",
    "cmp byte ptr [rdi + rax], 0",
    "je 5f",
    "inc rax",
    "jmp 4b",
    "5:",
    "ret",
    ".cfi_endproc",
    ".popsection",
);
