// flags: -Wl,-z,lazy -fno-builtin
// run: normal
// run: alternate
// A handler that allocates at every single instruction: of prologues and epilogues, of the linkage table, of the dynamic
// linker that binds a function. It counts calls and returns as they pass by, so it knows how many frames there are.
//
// A mark is 70,000 + calls that have not returned since `stepped`, or `stand_still`.
#include "victim.h"
#include <alloca.h>
#include <ucontext.h>

#define MARK(size) free(opaque(malloc(size)))
// How many instructions the linker takes depends on how many libraries there are; the number of marks must not.
enum { MARKS = 4500 };

// The processor's trap flag.
#define SWITCH(name, instruction)                                                                \
    __asm__(".text; .globl " name "; .type " name ", @function; " name ": .cfi_startproc;"       \
            "pushfq; .cfi_adjust_cfa_offset 8;" instruction "; popfq; .cfi_adjust_cfa_offset -8;" \
            "ret; .cfi_endproc; .size " name ", . - " name)
SWITCH("step_on", "orq $0x100, (%rsp)");
SWITCH("step_off", "andq $~0x100, (%rsp)");
void step_on(void);
void step_off(void);

static int marks, steps, calls;
static const unsigned char *last;

// One of the calls and returns that there are in these functions.
static int is_call(const unsigned char *code)
{
    if (code[0] == 0x41)
        code++;
    return code[0] == 0xe8 || (code[0] == 0xff && (code[1] >> 3 & 7) == 2);
}
static int is_return(const unsigned char *code)
{
    if (code[0] == 0xf2 || code[0] == 0xf3)
        code++;
    return code[0] == 0xc3;
}
CALL_SITE void at_each_step(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const unsigned char *now = (const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    // The first step is behind the return of `step_on`.
    if (last == NULL)
        calls = 0;
    else if (is_call(last))
        calls++;
    else if (is_return(last))
        calls--;
    last = now;
    if (marks < MARKS) {
        MARK(70000 + calls);
        marks++;
    }
    steps++;
}

CALL_SITE int small(int n) { return n + 1; }
CALL_SITE int recursive(int n)
{
    int r = n > 0 ? recursive(n - 1) : small(n);
    __asm__ volatile("# recursive");
    return r;
}
CALL_SITE int saving(int n)
{
    __asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15");
    return recursive(n) + small(n);
}
CALL_SITE __attribute__((optimize("no-omit-frame-pointer"))) int framed(int n)
{
    char room[40];
    opaque(room);
    return saving(n) + 1;
}
CALL_SITE int with_alloca(int n)
{
    opaque(alloca(16 + n * 16));
    return framed(n) + small(n);
}
CALL_SITE int with_array(int n)
{
    int room[n + 3];
    opaque(room);
    return with_alloca(n) + 1;
}
CALL_SITE int by_pointer(int (*const *function)(int), int n) { return (*function)(n) + function[1](n) + 1; }

CALL_SITE void stepped(int (*const *function)(int))
{
    step_on();
    for (int n = 0; n < 4; n++)
        with_array(n);
    by_pointer(function, 2);
    // Bound at their first call, which is here; then called directly.
    for (int n = 0; n < 2; n++)
        opaque_size(labs(ffs(n) + (long)strnlen("ab", 2)));
    step_off();
    last = NULL;
}
// Deeper than this thread has ever allocated.
CALL_SITE void far_down(int (*const *function)(int))
{
    char room[64 * 1024];
    opaque(room);
    stepped(function);
    opaque(room);
}
CALL_SITE void stand_still(void)
{
    for (; marks < MARKS; last = NULL)
        __asm__ volatile("int3");
}

int main(int argc, char **argv)
{
    static int (*const functions[])(int) = {framed, with_array};
    static char space[64 * 1024] __attribute__((aligned(64)));
    int alternate = argc > 1 && strcmp(argv[1], "alternate") == 0;
    MARK(1);
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = at_each_step;
    action.sa_flags = SA_SIGINFO | (alternate ? SA_ONSTACK : 0);
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    far_down(functions);
    CHECK(calls == 1);
    int with_binding = steps;
    far_down(functions);
    int without = steps - with_binding;
    // Else somebody had everything bound at once.
    CHECK(calls == 1 && without > 400 && with_binding > without + 200 && marks < MARKS);
    stand_still();
    printf("marks %d\n", marks);
    return 0;
}
