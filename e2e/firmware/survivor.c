/* Firmware in C that is reset again and again, with its ledger in memory that nothing sets to zero: each time it says what it finds there
   (survivor.rs is the same in Rust). The ledger says of which build it is, and the firmware is told when records become scarce. */
#include <stdlib.h>
#include "start.h"

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

/* Whether the next look at the clock, which is in the middle of an update, is to end in a reset. */
static int is_cut;
static uint32_t scarce;

static uint32_t ticks(void)
{
    if (is_cut) reset();
    return 7;
}

static void are_scarce(void) { scarce++; }

extern const uint8_t heapledger_build_id[], heapledger_build_id_end[];

#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_EVERYTHING
#define HEAPLEDGER_RECORDS 10
#define HEAPLEDGER_SITES 64
#define HEAPLEDGER_HISTORY 8
#define HEAPLEDGER_TASK_ROWS 1
#define HEAPLEDGER_TICKS ticks
#define HEAPLEDGER_PROCESS "program=survivor"
#define HEAPLEDGER_BUILD_ID heapledger_build_id, heapledger_build_id_end
#define HEAPLEDGER_SECTION ".noinit"
#define HEAPLEDGER_SURVIVES
#define HEAPLEDGER_SCARCE are_scarce
#include <heapledger-firmware.h>

/* How often the firmware has started; what else it is that survives. */
__attribute__((section(".noinit"))) static volatile uint32_t starts;

__attribute__((noinline)) static void *allocates(void)
{
    void *block = malloc(16);
    KEEP(block);
    return block;
}

/* A ledger of the time before: its sum, and whether an update was under way. */
static void look(const uint32_t *words, size_t count, void *context)
{
    uint32_t *said = context, sum = 0x811C9DC5;
    size_t at;
    for (at = 0; at < count; at++) sum = (sum ^ words[at]) * 0x01000193;
    said[0] = sum;
    said[1] = words[13] >> 16;
    /* What allocates here is not entered. */
    allocates();
}

static void say_what_survived(void)
{
    uint32_t said[2];
    int found = heapledger_survivor(look, said);
    if (found) {
        say("survived", said[0]);
        say("busy", said[1]);
    } else {
        say("nothing", 1);
    }
    /* Once is enough. */
    if (found && heapledger_survivor(0, 0)) fail(1);
}

void start(void)
{
    const uint32_t first = 0x5AFE0000;
    int at;
    if (starts >> 16 != first >> 16) starts = first;
    switch (starts++ - first) {
    case 0:
        for (at = 0; at < 60; at++) heapledger_ledger[at] = 0xA5A5A5A5;
        say_what_survived();
        for (at = 0; at < 4; at++) allocates();
        say("live", heapledger_live_bytes());
        reset();
    case 1:
        say_what_survived();
        say("live", heapledger_live_bytes());
        for (at = 0; at < 7; at++) allocates();
        say("scarce", scarce);
        free(allocates());
        say("scarce", scarce);
        allocates();
        say("scarce", scarce);
        is_cut = 1;
        allocates();
        fail(2);
    case 2:
        say_what_survived();
        allocates();
        /* A word of the header, in the middle of nothing. */
        heapledger_ledger[15] = 0x12345678;
        reset();
    default:
        say_what_survived();
        allocates();
        say("live", heapledger_live_bytes());
        fail(0);
    }
}
