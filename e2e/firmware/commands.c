/* The same as commands.rs, in C, with the C library's own functions: it allocates and frees as random numbers say, 10,000 times, from
   two tasks and from an interrupt; it leaks, asks for too much, and frees what is not there any more. The test `firmware_c` does the same with
   a model. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "start.h"

static volatile uint32_t ticks, in_interrupt, command;
static volatile uintptr_t task;

static uint32_t clock_of_test(void) { return ticks; }
static uintptr_t task_of_test(void) { return task; }
static uintptr_t interrupt_of_test(void) { return in_interrupt; }

#if defined(__riscv)
extern char stack_top[];
static uintptr_t end_of_stack(uintptr_t within) { (void)within; return (uintptr_t)stack_top; }
#define HEAPLEDGER_STACK_END end_of_stack
#endif
#ifdef SCANNED
extern char code_start[], code_end[];
#define HEAPLEDGER_STACK heapledger_scan
#define HEAPLEDGER_CODE code_start, code_end
#define HEAPLEDGER_SITES 2048
#else
#define HEAPLEDGER_STACK heapledger_frame_pointers
#define HEAPLEDGER_SITES 512
#endif

#ifdef LAYOUT
/* The library was built for this firmware, and knows the rest. */
#define HEAPLEDGER_IMPLEMENTATION LAYOUT
#else
#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_EVERYTHING
#endif
#define HEAPLEDGER_RECORDS 100
#define HEAPLEDGER_HISTORY 200
#define HEAPLEDGER_TASK_ROWS 3
#define HEAPLEDGER_DEPTH 12
#define HEAPLEDGER_PROCESS "program=commands"
#define HEAPLEDGER_TICKS clock_of_test
#define HEAPLEDGER_CLOCK_BITS 8
#define HEAPLEDGER_TICK_NS 1000000
#define HEAPLEDGER_TASK task_of_test
#define HEAPLEDGER_IN_INTERRUPT interrupt_of_test
#define HEAPLEDGER_ACTUAL usable
#define HEAPLEDGER_HEAPS HEAPLEDGER_HEAP("elsewhere", (void *)0x1000, (void *)0x2000), HEAPLEDGER_HEAP("sram", heap, heap + sizeof heap)
static size_t usable(const void *block) { return malloc_usable_size((void *)block); }
#ifdef GUARD
/* Nothing is wrong here. */
struct heapledger_damage;
static void wrong(const struct heapledger_damage *found) { (void)found; fail(77); }
#define HEAPLEDGER_GUARD GUARD
#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(heap, sizeof heap)
#define HEAPLEDGER_DAMAGED wrong
#define HEAPLEDGER_ERRORS 4
#endif
#include <heapledger-firmware.h>

/* Blocks that are known by a number. */
#define SLOTS 48
static struct { void *block; uint32_t bytes; } slots[SLOTS];

#ifndef LAYOUT
static const char text[] = "as many letters as are asked for, and that are never more than ninety-six, which this text must have, too.";
#endif

/* Where somebody looks at what is kept, optimizers do not know. */
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

/* The innermost frame. */
__attribute__((noinline)) void perform(uint32_t command)
{
    void *block = slots[command % SLOTS].block;
    uint32_t had = slots[command % SLOTS].bytes, bytes = 1 + (command >> 16) % 96, what = command >> 8 & 0x1F;
    if (!block) {
        if (what == 0) {
            /* More than there is. */
            block = malloc(40000);
            bytes = 0;
        } else if (what == 1) {
            /* A block that nobody knows any more. */
            heapledger_freed((void *)0x1230, HEAPLEDGER_KIND_FREE);
            bytes = 0;
#ifndef LAYOUT
        } else if (what < 5) {
            /* The C library allocates for itself. */
            block = strdup(text + sizeof text - bytes);
#endif
        } else if (what < 8) {
            block = calloc(1, bytes);
        } else {
            block = malloc(bytes);
        }
    } else if (what == 0 && (command >> 16 & 0x1F) == 0) {
        /* Lost, if that does not happen too often. */
        block = 0;
        bytes = 0;
    } else if (what < 12) {
        block = realloc(block, bytes);
    } else if (what == 12) {
        /* It fails, and nothing has changed. */
        if (realloc(block, 40000)) fail(97);
        bytes = had;
    } else {
        free(block);
        block = 0;
        bytes = 0;
    }
    KEEP(block);
    slots[command % SLOTS].block = block;
    slots[command % SLOTS].bytes = bytes;
}

/* So many frames more. */
__attribute__((noinline)) void deeper(uint32_t levels, uint32_t command)
{
    if (levels == 0) perform(command);
    else deeper(levels - 1, command);
    /* Not the last thing that it does: it stays on the stack. */
    KEEP(levels);
}

/* An interrupt does it. */
void Tick(void)
{
    uint32_t now = command;
    in_interrupt = 1;
    deeper(now >> 24 & 3, now);
    in_interrupt = 0;
    command = 0;
}

__attribute__((noinline)) static void look(void) { __asm__ volatile(""); }

/* Has the interrupt come now. It calls somebody: clang gives no frame to who does not. */
__attribute__((noinline)) void interrupted(void)
{
    INTERRUPT();
    while (command) ;
    look();
    __asm__ volatile("");
}

/* What random numbers begin with: `cargo xtask firmware` changes it in the linked file. */
const volatile uint32_t FIRST_RANDOM = 1;

void start(void)
{
    uint32_t random = FIRST_RANDOM, round;
#ifdef __riscv
    __asm__ volatile("csrs mie, %0\n\tcsrs mstatus, %0" : : "r"(8));
#endif
    heapledger_task_begins(0x1000, 1, "first");
    heapledger_task_begins(0x2000, 2, "second");
    for (round = 0; round < 10000; round++) {
        uint32_t now;
        random = random * 1664525u + 1013904223u;
        /* The upper bits of such numbers are the better ones. */
        now = (random << 16 | random >> 16) | 1u << 31;
        ticks = ticks + 1;
        command = now;
        task = now >> 26 & 1 ? 0x2000 : 0x1000;
        if ((now >> 27 & 7) == 0) interrupted();
        else deeper(now >> 24 & 3, now);
    }
    reset();
}
