/* How much is taken of the stacks of frees changes while the program runs; each stage frees blocks of a size of its own. */
#define HEAPLEDGER_WEAK
#include "heapledger.h"
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 10, FIRST_SIZE = 1001 };

static __attribute__((noinline)) void frees(void *block) {
    free(block);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void calls_it(void *block) {
    frees(block);
    __asm__ volatile("" ::: "memory");
}

/* Blocks of a stage. */
static __attribute__((noinline)) void stage(int number) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        void *block = kept(malloc((size_t)(FIRST_SIZE + number)));
        calls_it(block);
    }
}

static volatile int goes_on = 1;
static volatile unsigned rounds;

/* Allocates and frees all the while, so that depths change in the middle of calls. */
static void *churns(void *nothing) {
    for (; goes_on; rounds++) {
        frees(kept(malloc(77)));
        if (rounds % 4 == 0) usleep(1); /* else it would be millions */
    }
    return nothing;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int is_guarded = argc > 1 && !strcmp(argv[1], "guarded"), window, at;
    if (!HEAPLEDGER_PRESENT()) {
        EQUAL(heapledger_free_depth("whole"), HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    EQUAL(heapledger_free_depth("all"), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_free_depth("4097"), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_free_depth(""), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_free_depth(NULL), HEAPLEDGER_E_INVALID);
    if (is_guarded) {
        EQUAL(heapledger_free_depth("1"), HEAPLEDGER_E_NOT_SO);
        window = heapledger_window_open("whole", HEAPLEDGER_ALL | HEAPLEDGER_WHOLE_FREES, 0);
        stage(0);
        EQUAL(heapledger_window_stop(window), 0);
        stage(1);
        puts("guarded");
        return 0;
    }
    stage(0);
    EQUAL(heapledger_free_depth("1"), 0); /* as it is: no change */
    EQUAL(heapledger_free_depth("whole"), 0);
    stage(1);
    EQUAL(heapledger_free_depth("2"), 0);
    stage(2);
    EQUAL(heapledger_free_depth("1"), 0);
    window = heapledger_window_open("whole", HEAPLEDGER_ALL | HEAPLEDGER_WHOLE_FREES, 0);
    EQUAL(window > 0, 1);
    stage(3);
    at = heapledger_window_open("too", HEAPLEDGER_LEAKS | HEAPLEDGER_WHOLE_FREES, 1);
    EQUAL(heapledger_free_depth("0"), 0); /* once they are over */
    EQUAL(heapledger_window_pause(window), 0);
    stage(4);
    EQUAL(heapledger_window_stop(window), 0);
    EQUAL(heapledger_window_stop(window), HEAPLEDGER_E_UNKNOWN);
    stage(5);
    EQUAL(heapledger_window_stop(at), 0);
    stage(6);
    EQUAL(heapledger_window_open("none", 512, 0), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_free_depth("1"), 0);
    stage(7);
    EQUAL(heapledger_free_depth("whole/5"), 0);
    stage(8);
    EQUAL(pthread_create(&thread, NULL, churns, NULL), 0);
    for (at = 0; at < 200; at++) {
        unsigned before = rounds;
        EQUAL(heapledger_free_depth(at % 2 ? "whole" : "1"), 0);
        while (rounds - before < 3) sched_yield();
    }
    goes_on = 0;
    EQUAL(pthread_join(thread, NULL), 0);
    puts("changed");
    return 0;
}
