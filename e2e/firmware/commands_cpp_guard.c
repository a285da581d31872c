/* The ledger of commands.cpp where blocks are guarded, which is said in C. */
#include "start.h"

uint32_t clock_of_test(void);
uintptr_t task_of_test(void), interrupt_of_test(void);
/* Nothing is wrong here. */
struct heapledger_damage;
static void wrong(const struct heapledger_damage *found) { (void)found; fail(77); }

#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_TASKS
#define HEAPLEDGER_RECORDS 100
#define HEAPLEDGER_SITES 64
#define HEAPLEDGER_HISTORY 200
#define HEAPLEDGER_TASK_ROWS 3
#define HEAPLEDGER_PROCESS "program=commands"
#define HEAPLEDGER_TICKS clock_of_test
#define HEAPLEDGER_CLOCK_BITS 8
#define HEAPLEDGER_TICK_NS 1000000
#define HEAPLEDGER_TASK task_of_test
#define HEAPLEDGER_IN_INTERRUPT interrupt_of_test
#define HEAPLEDGER_GUARD GUARD
#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(heap, sizeof heap)
#define HEAPLEDGER_DAMAGED wrong
#define HEAPLEDGER_ERRORS 4
#include <heapledger-firmware.h>
