// Stacks of their own, and a switch between them that nobody is told of.
#ifndef UNWIND_SWITCH_H
#define UNWIND_SWITCH_H
#include "victim.h"

// Saves the callee-saved registers, stores the stack pointer, and goes on with another one.
void switch_stacks(void **from, void *to);
// Where a new stack begins: r12 has the function, r13 its argument. Nothing called it.
void stack_begins(void);
__asm__(".text\n.globl switch_stacks\n.type switch_stacks, @function\n"
        "switch_stacks: .cfi_startproc\n"
        " push %rbp\n .cfi_adjust_cfa_offset 8\n push %rbx\n .cfi_adjust_cfa_offset 8\n"
        " push %r12\n .cfi_adjust_cfa_offset 8\n push %r13\n .cfi_adjust_cfa_offset 8\n"
        " push %r14\n .cfi_adjust_cfa_offset 8\n push %r15\n .cfi_adjust_cfa_offset 8\n"
        " mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        " pop %r15\n .cfi_adjust_cfa_offset -8\n pop %r14\n .cfi_adjust_cfa_offset -8\n"
        " pop %r13\n .cfi_adjust_cfa_offset -8\n pop %r12\n .cfi_adjust_cfa_offset -8\n"
        " pop %rbx\n .cfi_adjust_cfa_offset -8\n pop %rbp\n .cfi_adjust_cfa_offset -8\n ret\n"
        " .cfi_endproc\n .size switch_stacks, . - switch_stacks\n"
        ".globl stack_begins\n.type stack_begins, @function\n"
        "stack_begins: .cfi_startproc\n .cfi_undefined %rip\n"
        " mov %r13, %rdi\n call *%r12\n ud2\n"
        " .cfi_endproc\n .size stack_begins, . - stack_begins\n");

// What to switch to for a stack that ends at `top` to begin with `function`.
static inline __attribute__((unused)) void *new_stack(void *top, void (*function)(void *), void *argument)
{
    void **words = (void **)((uintptr_t)top & -16) - 9;
    memset(words, 0, 9 * sizeof *words);
    words[2] = argument;         // r13
    words[3] = (void *)function; // r12
    words[6] = (void *)stack_begins;
    return words;
}

#endif
