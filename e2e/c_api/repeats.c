/* Does the same again and again, each time in a window and after a mark: what is kept the first time only is a cache, what is kept each
   time is a leak, and what the last round still works on is neither. Its arguments: where snapshots go, one for each round. */

#define HEAPLEDGER_WEAK
#include "check.h"
#include <heapledger.h>

static void *cache, *in_flight;
static void *leaks[16];

__attribute__((noinline)) static void fills_the_cache(void) {
    if (!cache) cache = malloc(7000);
    __asm__ volatile("");
}

__attribute__((noinline)) static void forgets(int round) {
    leaks[round] = kept(malloc(300));
    __asm__ volatile("");
}

__attribute__((noinline)) static void goes_on(void) {
    free(in_flight);
    in_flight = kept(malloc(1000));
    __asm__ volatile("");
}

int main(int arguments, char **words) {
    int round;
    CHECK(HEAPLEDGER_PRESENT());
    for (round = 1; round < arguments; round++) {
        char mark[32];
        int window;
        snprintf(mark, sizeof mark, "round %d", round);
        CHECK(heapledger_mark(mark) >= 0);
        window = heapledger_window_open("request", HEAPLEDGER_LEAKS, 0);
        CHECK(window >= 0);
        fills_the_cache();
        forgets(round);
        goes_on();
        free(kept(malloc(50)));
        CHECK(heapledger_window_stop(window) == 0);
        CHECK(heapledger_snapshot(words[round]) == 0);
    }
    return 0;
}
