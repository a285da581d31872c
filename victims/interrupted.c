// expect: live fn=faulty kind=malloc count=3 bytes=111
// A signal interrupts a function at its very first instruction, and its handler allocates. The code address of the
// interrupted frame is no return address: it is that instruction, and the one before belongs to another function.
#define _GNU_SOURCE
#include "victim.h"
#include <signal.h>
#include <ucontext.h>

// Global, so that a test can ask where it is.
void faulty(void);
__asm__(".pushsection .text\n"
        ".globl before_faulty\n.type before_faulty, @function\n"
        "before_faulty:\n\t.cfi_startproc\n\tnop\n\tret\n\t.cfi_endproc\n\t.size before_faulty, .-before_faulty\n"
        ".globl faulty\n.type faulty, @function\n"
        "faulty:\n\t.cfi_startproc\n\tud2\n\tret\n\t.cfi_endproc\n\t.size faulty, .-faulty\n"
        ".popsection");

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    opaque(malloc(37));
    // Behind the instruction.
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGILL, &action, NULL) == 0);
    for (int i = 0; i < 3; i++)
        faulty();
    printf("three times\n");
    return 0;
}
