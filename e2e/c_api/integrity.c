/* Checks on demand: each byte around a block changed in turn, and put right again, at the level of its argument. */
#define HEAPLEDGER_WEAK
#include "heapledger.h"
#include "check.h"
#include <pthread.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 7, 13, 16, 24, 100, 4096};
enum { SIZES = sizeof sizes / sizeof *sizes };
static volatile int goes_on = 1;

/* What one byte changed at this distance from the block's first does to a check. */
static int after_change(volatile unsigned char *block, long offset) {
    int damaged;
    block[offset] ^= 0x41;
    damaged = heapledger_check_integrity((void *)block);
    block[offset] ^= 0x41;
    return damaged;
}

static void reach(long before, long behind) {
    for (int row = 0; row < SIZES; row++) {
        long size = (long)sizes[row];
        unsigned char *block = kept(malloc(sizes[row]));
        for (long offset = -before; offset < size + behind; offset++)
            EQUAL(after_change(block, offset), offset < 0 || offset >= size);
        EQUAL(heapledger_check_integrity(block), 0);
        EQUAL(heapledger_check_integrity(block + 1), HEAPLEDGER_E_UNKNOWN);
        free(block);
    }
}

/* Each byte of a block that was freed and waits. */
static void freed(void) {
    for (int row = 1; row < 6; row++) {
        volatile unsigned char *block = kept(malloc(sizes[row]));
        free(kept((void *)block));
        for (size_t offset = 0; offset < sizes[row]; offset++) {
            block[offset] ^= 0x41;
            EQUAL(heapledger_check_integrity(NULL), 1);
            block[offset] ^= 0x41;
        }
        EQUAL(heapledger_check_integrity(NULL), 0);
    }
}

static void *works(void *unused) {
    unsigned random = 1;
    void *blocks[64] = {0};
    while (goes_on) {
        random = random * 1103515245 + 12345;
        void **place = &blocks[random >> 8 & 63];
        size_t size = random >> 16 & 1023;
        if (random >> 28 & 1) *place = realloc(*place, size + 1);
        else { free(*place); *place = malloc(size); }
        if (*place) memset(*place, 'x', size);
    }
    for (int row = 0; row < 64; row++) free(blocks[row]);
    return unused;
}

/* While others allocate, nothing is damaged. */
static void beside_others(void) {
    pthread_t threads[3];
    for (int row = 0; row < 3; row++) CHECK(pthread_create(&threads[row], NULL, works, NULL) == 0);
    for (int round = 0; round < 200; round++) EQUAL(heapledger_check_integrity(NULL), 0);
    goes_on = 0;
    for (int row = 0; row < 3; row++) CHECK(pthread_join(threads[row], NULL) == 0);
}

int main(int count, char **words) {
    const char *level = count > 1 ? words[1] : "";
    int is_full = !strcmp(level, "full"), is_light = !strcmp(level, "light");
    if (!is_full && !is_light) {
        EQUAL(heapledger_check_integrity(NULL), heapledger_state() ? HEAPLEDGER_E_NOT_SO : HEAPLEDGER_E_ABSENT);
        puts("not guarded");
        return 0;
    }
    EQUAL(heapledger_check_integrity(NULL), 0);
    EQUAL(heapledger_check_integrity(&level), HEAPLEDGER_E_UNKNOWN);
    if (count > 2) {
        beside_others();
    } else {
        reach(16, is_full ? 48 : 4);
        if (is_full) freed();
    }
    EQUAL(heapledger_check_integrity(NULL), 0);
    puts("as it should");
    return 0;
}
