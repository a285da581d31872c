// Two functions whose frames are of size FRAME and nothing else differs: every instruction has the same place and length in
// each library that is made of this. Names have LETTER in them; with BY_RBP a frame is found by rbp. With BROKEN it cannot be
// loaded, which the loader finds out after it has called a resolver in here.
#define GLUE2(a, b, c) a##b##c
#define GLUE(a, b, c) GLUE2(a, b, c)
#define OUTER GLUE(layout_, LETTER, _outer)
#define INNER GLUE(layout_, LETTER, _inner)

    .text
    .globl OUTER
    .type OUTER, @function
// rdi: what to call, rsi: its argument.
OUTER:
outer:
    .cfi_startproc
#ifdef BY_RBP
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    .byte 0x48, 0x81, 0xec // sub $FRAME, %rsp
    .long FRAME
    call inner
    .byte 0x48, 0x81, 0xc4 // add
    .long FRAME
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
#else
    .byte 0x48, 0x81, 0xec
    .long FRAME + 8
    .cfi_def_cfa_offset FRAME + 16
    nop
    nop
    nop
    nop
    call inner
    .byte 0x48, 0x81, 0xc4
    .long FRAME + 8
    .cfi_def_cfa_offset 8
    ret
    nop
#endif
    .cfi_endproc
    .size OUTER, . - OUTER

    .globl INNER
    .type INNER, @function
INNER:
inner:
    .cfi_startproc
#ifdef BY_RBP
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    xor %ebp, %ebp
    nop
    .byte 0x48, 0x81, 0xec
    .long FRAME
    .cfi_def_cfa_offset FRAME + 16
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    .byte 0x48, 0x81, 0xc4
    .long FRAME
    .cfi_def_cfa_offset 16
    pop %rbp
    .cfi_restore %rbp
    .cfi_def_cfa_offset 8
    ret
#else
    .byte 0x48, 0x81, 0xec
    .long FRAME + 8
    .cfi_def_cfa_offset FRAME + 16
    nop
    nop
    nop
    nop
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    .byte 0x48, 0x81, 0xc4
    .long FRAME + 8
    .cfi_def_cfa_offset 8
    ret
    nop
#endif
    .cfi_endproc
    .size INNER, . - INNER

// The destructor calls back too, after the loader was told that the library goes.
    .globl layout_destroy
    .type layout_destroy, @function
layout_destroy:
    .cfi_startproc
    sub $8, %rsp
    .cfi_def_cfa_offset 16
    mov layout_mark@GOTPCREL(%rip), %rdi
    mov (%rdi), %rdi
    mov layout_last@GOTPCREL(%rip), %rsi
    mov (%rsi), %rsi
    test %rdi, %rdi
    jz 1f
    call outer
1:  add $8, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size layout_destroy, . - layout_destroy

// Bound when the library is loaded: the same size in all of them, and nobody calls it.
    .globl layout_calls
    .type layout_calls, @function
layout_calls:
    .cfi_startproc
#ifdef BROKEN
    jmp there_is_no_such_function@PLT
#else
    jmp abort@PLT
#endif
    .cfi_endproc
    .size layout_calls, . - layout_calls

#ifdef BROKEN
// Runs before that is bound.
    .type layout_resolver, @function
layout_resolver:
    .cfi_startproc
    sub $8, %rsp
    .cfi_def_cfa_offset 16
    mov layout_mark@GOTPCREL(%rip), %rdi
    mov (%rdi), %rdi
    mov $BROKEN, %esi
    call outer
    lea inner(%rip), %rax
    add $8, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size layout_resolver, . - layout_resolver
    .globl layout_chosen
    .type layout_chosen, @gnu_indirect_function
    .set layout_chosen, layout_resolver
    .data
    .quad layout_chosen
#endif

    .section .fini_array, "aw"
    .balign 8
    .quad layout_destroy
    .bss
    .globl layout_last
    .balign 8
layout_last:
    .zero 8
    .size layout_last, 8
    .type layout_last, @object
    .section .note.GNU-stack, "", @progbits
