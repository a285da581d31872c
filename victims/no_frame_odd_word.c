// losses: stacks_broken stacks_guessed
// expect: live fn=odd_frame kind=malloc count=2 bytes=74 innermost
// Code without unwind tables whose rbp leads to a word of the stack that looks like a frame, but where the return address
// would be there is an address of the stack, then one of a variable: neither is code.
#include "victim.h"

void *odd_frame(const void *word);
__asm__(".pushsection .text\n"
        ".globl odd_frame\n.type odd_frame, @function\n"
        "odd_frame:\n"
        "\tpush %rbp\n\tsub $32, %rsp\n\tmov %rsp, %rbp\n"
        "\tlea 64(%rsp), %rax\n\tmov %rax, (%rbp)\n\tmov %rdi, 8(%rbp)\n"
        "\tmov $37, %edi\n\tcall malloc@PLT\n"
        "\tadd $32, %rsp\n\tpop %rbp\n\tret\n"
        "\t.size odd_frame, .-odd_frame\n"
        ".popsection");

static int variable[64] = {1};

int main(void)
{
    int local[16] = {1};
    CHECK(odd_frame(opaque(&local[8])) != NULL);
    CHECK(odd_frame(opaque(&variable[8])) != NULL);
    printf("twice\n");
    return 0;
}
