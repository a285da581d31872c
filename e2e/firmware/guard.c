/* Firmware in C whose blocks are guarded (-DGUARD=HEAPLEDGER_LIGHT, HEAPLEDGER_FULL): it writes where it must not, and says what is told. The test
   `firmware_c` knows what that is to be. */
#include <stdlib.h>
#include <string.h>
#include "start.h"

/* (Compilers know that `free` changes nothing of theirs.) */
static volatile uint32_t kinds[32], letters;
static void put(int letter) { letters += letter != 0; }

struct heapledger_damage;
static void damaged(const struct heapledger_damage *found);

#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_MINIMAL
#define HEAPLEDGER_RECORDS 50
#define HEAPLEDGER_SITES 128
#define HEAPLEDGER_GUARD GUARD
#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(heap, sizeof heap)
#define HEAPLEDGER_DAMAGED damaged
#include <heapledger-firmware.h>

static void damaged(const struct heapledger_damage *found)
{
    uintptr_t address;
    size_t bytes;
    kinds[heapledger_damage_kind(found, &address, &bytes) & 31]++;
    heapledger_say_damage(found, put);
}

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

__attribute__((noinline)) static unsigned char *allocates(size_t bytes)
{
    unsigned char *block = malloc(bytes);
    KEEP(block);
    return block;
}

__attribute__((noinline)) static void frees(void *block)
{
    KEEP(block);
    free(block);
}

static uint32_t are(const unsigned char *block, size_t from, size_t to, int byte)
{
    while (from < to && block[from] == byte) from++;
    return from == to;
}

__attribute__((noinline)) static void writes(unsigned char *block, int distance, int bits)
{
    volatile unsigned char *place;
    KEEP(block);
    place = block + distance;
    *place ^= (unsigned char)bits;
}

/* How often a kind was told since this was last asked. */
static uint32_t told(int kind)
{
    uint32_t count = kinds[kind];
    kinds[kind] = 0;
    return count;
}

void start(void)
{
    unsigned char *block = allocates(13), *other = calloc(3, 20), *freed;
    struct heapledger_sweep sweep = {{0, 0, 0}};
    uint32_t seen = 0;
    int step;
    KEEP(other);
    say("new_is_filled", are(block, 0, 13, 0xCE));
    say("zeroed", are(other, 0, 60, 0));
    say("whole", heapledger_check_integrity());
    writes(block, 13, 1);
    say("behind", heapledger_check_integrity());
    say("overflow", told(22));
    say("letters", letters);
    say("this_block", (uint32_t)heapledger_check_block(block));
    say("other_block", (uint32_t)heapledger_check_block(other));
    say("no_block", (uint32_t)(heapledger_check_block(block + 8) == HEAPLEDGER_E_UNKNOWN));
    while ((step = heapledger_check_step(&sweep)) >= 0) seen += (uint32_t)step;
    say("in_steps", seen);
    told(22);
    frees(block);
    say("at_free", told(22));
    writes(other, -4, 0x80);
    say("heap", heapledger_check_heap(0));
    say("underflow", told(23));
    writes(other, -4, 0x80);
    other = realloc(other, 100);
    KEEP(other);
    say("kept", are(other, 0, 60, 0));
    say("grown_is_filled", are(other, 60, 100, 0xCE));
    KEEP(other);
    frees(other + 16);
    say("interior", told(4));
    frees(other);
    say("freed_is_filled", are(other, 40, 100, 0xFE));
    frees(other);
    say("twice", told(3));
    block = allocates(50);
    freed = allocates(90);
    KEEP(freed);
    frees(block);
    writes(block, 33, 1);
    say("in_freed", heapledger_check_integrity());
    told(24);
    other = allocates(50);
    say("again", (uint32_t)(other == block));
    say("handed_out", told(24));
    frees(other);
    frees(freed);
    say("end", heapledger_check_integrity());
    fail(0);
}
