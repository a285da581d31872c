// run: normal
// run: alternate
// A handler that changes one word of the interrupted context after another and allocates after each: instruction pointer,
// stack pointer, frame pointer. Its own frame, and the one that the kernel made, stay as they are. What is outside changes
// with each word.
//
// A mark is 30,000 + (level * 3 + shape) * 2 + trap.
#include "victim.h"
#include <alloca.h>
#include <ucontext.h>

#define MARK(size) free(opaque(malloc(size)))
enum { LEVELS = 6, SHAPES = 3, TRAPS = 2, EDITS = 40, SIGNALS = 50 };

// Interrupted without a frame. Below their stack pointer they leave what a frame called from there would have left: one more
// than where they were interrupted, which is how the tracker stores that.
__asm__(".text\n"
        ".macro TRAP number\n"
        ".globl trap_\\number, after_trap_\\number\n .type trap_\\number, @function\n"
        "trap_\\number: .cfi_startproc\n lea after_trap_\\number + 1(%rip), %rax\n mov %rax, -8(%rsp)\n int3\n"
        "after_trap_\\number: nop\n ret\n .cfi_endproc\n .size trap_\\number, . - trap_\\number\n"
        ".endm\n"
        "TRAP 0\n .skip 16, 0x90\n TRAP 1\n");
void trap_0(void);
extern char after_trap_0[], after_trap_1[];
static char *const after_traps[TRAPS] = {after_trap_0, after_trap_1};

static greg_t *frame_of_level[LEVELS], *return_of_hop[LEVELS];
static uint32_t random_state = 1013904223;
static int marks;

// Where the frames are found by rbp, and rbp is saved below its caller's: `hop`s in between leave it alone.
static void (*const hops[LEVELS])(int level);
CALL_SITE void level(int number)
{
    opaque(alloca(32 + 16 * number));
    frame_of_level[number] = __builtin_frame_address(0);
    if (number + 1 < LEVELS) {
        hops[number + 1](number + 1);
    } else {
        MARK(1); // from here outwards the stack is known; what if not, others test
        trap_0();
    }
    __asm__ volatile("# level");
}
#define HOP(number)                                                \
    CALL_SITE void hop_##number(int of)                            \
    {                                                              \
        return_of_hop[of] = (greg_t *)__builtin_dwarf_cfa() - 1;   \
        level(of);                                                 \
        __asm__ volatile("# " #number);                            \
    }
HOP(0)
HOP(1)
HOP(2)
HOP(3)
HOP(4)
HOP(5)
static void (*const hops[LEVELS])(int level) = {hop_0, hop_1, hop_2, hop_3, hop_4, hop_5};

CALL_SITE void edit_and_mark(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    greg_t ip = registers[REG_RIP], sp = registers[REG_RSP], bp = registers[REG_RBP];
    unsigned way = 0;
    for (int i = 0; i < EDITS; i++) {
        uint32_t turn = next_random(&random_state);
        unsigned trap = turn >> 8 & 1, shape = way / TRAPS % SHAPES, at = way / TRAPS / SHAPES;
        // One of them at a time, mostly.
        if (turn % 4 >= 1)
            shape = (turn >> 10) % SHAPES;
        if (turn % 4 >= 2)
            at = (turn >> 16) % LEVELS;
        way = (at * SHAPES + shape) * TRAPS + trap;
        registers[REG_RIP] = (greg_t)after_traps[trap];
        switch (shape) {
        case 0: // called by that level
            registers[REG_RSP] = sp;
            registers[REG_RBP] = (greg_t)frame_of_level[at];
            break;
        case 1: // by its hop
            registers[REG_RSP] = (greg_t)(frame_of_level[at] + 1);
            registers[REG_RBP] = *frame_of_level[at];
            break;
        case 2: // by who called that
            registers[REG_RSP] = (greg_t)return_of_hop[at];
            registers[REG_RBP] = *frame_of_level[at];
            break;
        }
        MARK(30000 + way);
        marks++;
    }
    registers[REG_RIP] = ip;
    registers[REG_RSP] = sp;
    registers[REG_RBP] = bp;
}

CALL_SITE void walk(void)
{
    hop_0(0);
    __asm__ volatile("# walk");
}

int main(int argc, char **argv)
{
    static char space[64 * 1024] __attribute__((aligned(64)));
    int alternate = argc > 1 && strcmp(argv[1], "alternate") == 0;
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = edit_and_mark;
    action.sa_flags = SA_SIGINFO | (alternate ? SA_ONSTACK : 0);
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int i = 0; i < SIGNALS; i++)
        walk();
    printf("marks %d\n", marks);
    return 0;
}
