/* What the library takes of a firmware in C: bytes of flash, RAM and stack, and instructions of a malloc() and its free() from four frames. It is linked
   once for each layout (-DLAYOUT=), and once without; the test `firmware_c` shows the differences. */
#include <stdlib.h>
#include "start.h"

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

/* Counts up by one for each 40 ns on the Cortex-M3, each ns on RISC-V. */
static uint32_t ticks(void)
{
#ifdef __arm__
    return 0xFFFFFF - *(volatile uint32_t *)0xE000E018;
#else
    uint32_t cycles;
    __asm__ volatile("csrr %0, mcycle" : "=r"(cycles));
    return cycles;
#endif
}

#ifdef LAYOUT
__attribute__((unused)) static uintptr_t task(void) { return 0x1000; }
#ifdef __riscv
extern char stack_top[];
static uintptr_t end_of_stack(uintptr_t within) { (void)within; return (uintptr_t)stack_top; }
#define HEAPLEDGER_STACK_END end_of_stack
#endif
#define HEAPLEDGER_RECORDS 100
#define HEAPLEDGER_SITES 512
#define HEAPLEDGER_HISTORY 64
#define HEAPLEDGER_TASK_ROWS 4
#define HEAPLEDGER_DEPTH 5
#define HEAPLEDGER_TASK task
#define HEAPLEDGER_TICKS ticks
#define HEAPLEDGER_CLOCK_BITS 24
#define HEAPLEDGER_STACK heapledger_frame_pointers
#include <heapledger-firmware.h> /* what layouts are called */
#if LAYOUT == HEAPLEDGER_FIXED
/* It has a stack's end from the vector table, and no time; whom it asks, it was built for. */
#undef HEAPLEDGER_TICKS
#undef HEAPLEDGER_TASK
#endif
#if LAYOUT == HEAPLEDGER_MINIMAL
/* malloc() calls nothing that is led to the library. */
#define HEAPLEDGER_NESTED 0
#endif
#define HEAPLEDGER_IMPLEMENTATION LAYOUT
#include <heapledger-firmware.h>
#endif

/* Instructions between two looks at the clock. One takes 64 ns (-icount shift=6). */
static uint32_t instructions(uint32_t before, uint32_t after)
{
    uint32_t gone = (after - before) & 0xFFFFFF;
#ifdef __arm__
    return (gone * 40 + 32) / 64;
#else
    return gone / 64;
#endif
}

static uint32_t costs[2];

static uintptr_t stack_pointer(void)
{
    uintptr_t pointer;
#ifdef __arm__
    __asm__ volatile("mov %0, sp" : "=r"(pointer));
#else
    __asm__ volatile("mv %0, sp" : "=r"(pointer));
#endif
    return pointer;
}

/* The stack pointer of whoever last called malloc() or free(). */
static uintptr_t called_at;

__attribute__((noinline)) static void *fourth(void *block)
{
    uint32_t before, is_free = block != 0, cost;
    called_at = stack_pointer();
    before = ticks();
    if (block) {
        free(block);
        block = 0;
    } else {
        block = malloc(24);
    }
    cost = instructions(before, ticks());
    costs[is_free] += cost;
    return block;
}

__attribute__((noinline)) static void *third(void *block) { block = fourth(block); KEEP(block); return block; }
__attribute__((noinline)) static void *second(void *block) { block = third(block); KEEP(block); return block; }
__attribute__((noinline)) static void *first(void *block) { block = second(block); KEEP(block); return block; }

/* Bytes of stack that lie below the caller of malloc() or free() while that runs, its own and the allocator's: what is painted there before and is not
   any more. */
enum { PAINTED_WORDS = 512, PAINT = 0x5AA5A55A };

__attribute__((noinline)) static uint32_t stack_bytes(void **block)
{
    volatile uint32_t *below = (volatile uint32_t *)((stack_pointer() - 16) & ~(uintptr_t)3) - PAINTED_WORDS;
    uint32_t at;
    for (at = 0; at < PAINTED_WORDS; at++) below[at] = PAINT;
    *block = first(*block);
    for (at = 0; at < PAINTED_WORDS && below[at] == PAINT; at++) ;
    return called_at - (uintptr_t)(below + at);
}

void start(void)
{
    int at;
    void *live[83];
#ifdef __arm__
    store(0xE000E014, 0xFFFFFF);
    store(0xE000E018, 0);
    store(0xE000E010, 5);
#endif
    for (at = 0; at < 83; at++) live[at] = first(0);
    KEEP(live[0]);
    costs[0] = costs[1] = 0;
    for (at = 0; at < 160; at++) {
        void *block = first(0);
        first(block);
    }
    say("alloc", costs[0] / 160);
    say("free", costs[1] / 160);
    {
        void *block = 0;
        say("alloc_stack", stack_bytes(&block));
        say("free_stack", stack_bytes(&block));
    }
    fail(0);
}
