/* The guard is lowered while the program runs: blocks of each level live side by side, are damaged, resized and freed. Arguments: the level with which the
   program was started, and `wrongly` if something is to be damaged. */
#define HEAPLEDGER_WEAK
#include "heapledger.h"
#include "check.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEVELS = 4, SIZE = 100 };
static const char *const names[LEVELS] = {"off", "light", "full", "page"};
static volatile int goes_on = 1;

static unsigned char *filled(size_t bytes) {
    unsigned char *block = kept(malloc(bytes));
    memset(block, 0x31, bytes);
    return block;
}

static void is_filled(const unsigned char *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) EQUAL(block[at], 0x31);
}

/* After this only four system calls may be made. What was dressed before is resized and freed all the same. */
static int restricted(void) {
    unsigned char *block = filled(SIZE), *aligned = kept(aligned_alloc(256, SIZE));
    memset(aligned, 0x31, SIZE);
    free(kept(malloc(100000)));
    EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), 0);
    block = kept(realloc(block, 2 * SIZE));
    is_filled(block, SIZE);
    aligned = kept(realloc(aligned, 2 * SIZE));
    is_filled(aligned, SIZE);
    free(block);
    free(aligned);
    EQUAL(write(1, "lowered\n", 8), 8);
    return (int)syscall(SYS_exit, 0);
}

/* Allocates, resizes and frees all the while. */
static void *churns(void *nothing) {
    unsigned char *blocks[64] = {0};
    for (size_t round = 0; goes_on; round++) {
        size_t at = round % 64, bytes = 1 + round % 300;
        unsigned char *zeros = kept(calloc(1, bytes));
        for (size_t byte = 0; byte < bytes; byte++) EQUAL(zeros[byte], 0);
        free(zeros);
        if (blocks[at]) is_filled(blocks[at], 1);
        blocks[at] = kept(realloc(blocks[at], bytes));
        memset(blocks[at], 0x31, bytes);
    }
    for (size_t at = 0; at < 64; at++) free(blocks[at]);
    return nothing;
}

static void lowers_to(int level, int before) {
    EQUAL(heapledger_guard_level(-1), before);
    EQUAL(heapledger_guard_level(level), before);
    EQUAL(heapledger_guard_level(-1), level);
    if (level < HEAPLEDGER_GUARD_PAGE) EQUAL(heapledger_guard_level(level + 1), HEAPLEDGER_E_NOT_SO);
    EQUAL(heapledger_guard_level(HEAPLEDGER_GUARD_SAMPLED), HEAPLEDGER_E_NOT_SO);
    EQUAL(heapledger_guard_level(5), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_guard_level(1000), HEAPLEDGER_E_INVALID);
}

int main(int argc, char **argv) {
    unsigned char *blocks[LEVELS][3];
    pthread_t threads[2];
    int start = 0, wrongly = argc > 2 && !strcmp(argv[2], "wrongly");
    if (argc < 2 || !HEAPLEDGER_PRESENT()) {
        EQUAL(heapledger_guard_level(0), HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    if (!strcmp(argv[1], "restricted")) return restricted();
    while (start < LEVELS && strcmp(names[start], argv[1])) start++;
    if (start == LEVELS) { /* one block in so many: to none, and to nothing else */
        EQUAL(heapledger_guard_level(HEAPLEDGER_GUARD_FULL), HEAPLEDGER_E_NOT_SO);
        EQUAL(heapledger_guard_level(HEAPLEDGER_GUARD_OFF), HEAPLEDGER_GUARD_SAMPLED);
        EQUAL(heapledger_guard_level(HEAPLEDGER_GUARD_SAMPLED), HEAPLEDGER_E_NOT_SO);
        /* Blocks of new call sites would be guarded first of all: they end as glibc's do, at a place of no page's. */
        for (int round = 0; round < 1000; round++) {
            unsigned char *block = filled(SIZE);
            is_filled(block, SIZE);
            free(block);
        }
        puts("lowered");
        return 0;
    }
    for (size_t at = 0; at < 2; at++) EQUAL(pthread_create(&threads[at], NULL, churns, NULL), 0);
    for (int level = start; level >= 0; level--) {
        lowers_to(level, level == start ? level : level + 1);
        for (int at = 0; at < 3; at++) blocks[level][at] = filled(SIZE);
        if (start != 0) EQUAL(heapledger_check_integrity(blocks[level][0]), level ? 0 : HEAPLEDGER_E_UNKNOWN);
    }
    if (start != 0) EQUAL(heapledger_check_integrity(NULL), 0);
    for (int level = start; level >= 0; level--) {
        is_filled(blocks[level][0], SIZE);
        /* In front of a block: at page what lies behind one cannot be touched. */
        if (wrongly && level) blocks[level][0][-1] ^= 0x41;
        blocks[level][1] = kept(realloc(blocks[level][1], 3 * SIZE));
        is_filled(blocks[level][1], SIZE);
        blocks[level][2] = kept(realloc(blocks[level][2], SIZE / 2));
        is_filled(blocks[level][2], SIZE / 2);
        for (int at = 0; at < 3; at++) free(blocks[level][at]);
    }
    goes_on = 0;
    for (size_t at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    puts("lowered");
    return 0;
}
