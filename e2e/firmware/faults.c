/* Firmware in C that asks who writes to a word of a block, where the processor can tell, and then does what it cannot go on with. What handlers are
   told it says; the rest is in the ledger. */
#include <stdlib.h>
#include "start.h"

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_MINIMAL
#define HEAPLEDGER_RECORDS 10
#define HEAPLEDGER_SITES 64
#define HEAPLEDGER_STACK heapledger_frame_pointers
#define HEAPLEDGER_GUARD HEAPLEDGER_LIGHT
#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(heap, sizeof heap)
#define HEAPLEDGER_ERRORS 4
#ifdef __riscv
extern char stack_top[];
static uintptr_t end_of_stack(uintptr_t within) { (void)within; return (uintptr_t)stack_top; }
#define HEAPLEDGER_STACK_END end_of_stack
#endif
#include <heapledger-firmware.h>

static void written(const struct heapledger_written *what)
{
    say("written", (uint32_t)what->bytes);
    say("address", (uint32_t)(uintptr_t)what->address);
    say("code", (uint32_t)what->code);
    say("over", (uint32_t)what->is_over);
}

static void told(const struct heapledger_fault *what)
{
    say("fault", (uint32_t)what->status);
    say("at", (uint32_t)what->code);
    say("accessed", (uint32_t)what->address);
#ifdef ENDS
    fail(0);
#else
    /* As the watchdog would; the memory is looked at now. */
    reset();
#endif
}

#ifdef __arm__
HEAPLEDGER_WATCH_HANDLER(Monitor, written)
HEAPLEDGER_FAULT_HANDLER(Fault, told)
#else
/* Called by the trap's assembly. */
void trapped(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    const uintptr_t found[4] = {0, frame[-2], 0, 0};
    struct heapledger_written what;
    struct heapledger_fault fault;
    if (heapledger_written(found, &what)) {
        written(&what);
        return;
    }
    heapledger_faulted(found, &fault);
    told(&fault);
}
#endif

__attribute__((noinline)) void writer(volatile uint32_t *word, uint32_t value)
{
    *word = value;
    KEEP(value);
}

/* It calls somebody, so it has a frame, and stays in the chain. */
__attribute__((noinline)) void through(volatile uint32_t *word, uint32_t value)
{
    writer(word, value);
    KEEP(value);
}

void start(void)
{
    uint32_t *block = malloc(24);
    int watch;
    KEEP(block);
    say("unaligned", (uint32_t)-heapledger_watch((char *)block + 1, 4));
    watch = heapledger_watch(block + 1, 4);
    if (watch >= 0) {
        say("watch", (uint32_t)watch);
        through(block, 1);
        through(block + 3, 1);
        say("not", 1);
        through(block + 1, 7);
        say("value", block[1]);
        /* Over on RISC-V. */
        through(block + 1, 8);
        say("unwatch", (uint32_t)-heapledger_unwatch(watch));
    } else {
        say("cannot", (uint32_t)-watch);
    }
    say("nobody", (uint32_t)-heapledger_unwatch(9));
    /* There is nothing. */
#ifdef __arm__
    through((volatile uint32_t *)0x60000000, 3);
#else
    through((volatile uint32_t *)0x18000000, 3);
#endif
    fail(90);
}
