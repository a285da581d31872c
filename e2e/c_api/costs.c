/* What functions of the C API cost: callgrind counts from one call of `segment` to the next, each of 500 pairs of malloc and free.
   Arguments: what is asked for, and how many blocks live meanwhile. With PLAIN, the same program without the header. */

#include "check.h"
#include <string.h>
#ifndef PLAIN
#define HEAPLEDGER_WEAK
#include <heapledger.h>
#endif

enum { SEGMENTS = 8, PAIRS = 512, RECORDS_MAX = 200000 };

__attribute__((noinline)) void segment(void) { __asm__ volatile(""); }

#ifdef PLAIN

int main(void) {
    int round, pair;
    void *blocks[PAIRS];
    for (round = 0; round < SEGMENTS; round++) {
        segment();
        for (pair = 0; pair < PAIRS; pair++) blocks[pair] = kept(malloc(24));
        for (pair = 0; pair < PAIRS; pair++) free(blocks[pair]);
    }
    segment();
    return 0;
}

#else

static size_t buffer[RECORDS_MAX * 64];
/* Blocks that are told of. */
static char pool[PAIRS * 32];

static void nothing(const struct heapledger_event *event, void *data) {
    (void)event;
    (void)data;
}

static int is(const char *word, const char *other) { return strcmp(word, other) == 0; }

int main(int arguments, char **words) {
    const char *what = arguments > 1 ? words[1] : "";
    size_t live = arguments > 2 ? (size_t)atol(words[2]) : 0, index;
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, is(what, "trace-stacks") ? 8 : 0, 0, 0};
    int round, pair, is_known = !is(what, "trace-unknown"), calls = is(what, "calls"), told = is(what, "told"), trace = 1, heap = 0;
    void *blocks[PAIRS];
    if (is(what, "alloc") || is(what, "both")) CHECK(heapledger_on_alloc(nothing, NULL) > 0);
    if (is(what, "free") || is(what, "both")) CHECK(heapledger_on_free(nothing, NULL) > 0);
    if (is(what, "refused")) CHECK(heapledger_on_refused(nothing, NULL) > 0);
    if (is(what, "above")) CHECK(heapledger_on_live_above((size_t)1 << 40, 0, nothing, NULL) > 0);
    if (is(what, "region")) CHECK(heapledger_region_begin(0) > 0);
    if (is(what, "window")) CHECK(heapledger_window_open("costs", HEAPLEDGER_ALL, 0) >= 0);
    if (strncmp(what, "trace", 5) == 0)
        CHECK((trace = heapledger_trace_start(buffer, heapledger_trace_words(live + PAIRS + 8, &options), &options)) > 0);
    if (told) CHECK((heap = heapledger_heap_begin("pool", pool, sizeof pool, 0)) >= 0);
    for (index = 0; index < live; index++) kept(malloc(24));
    if (!is_known) heapledger_trace_pause(trace);
    if (is(what, "unused")) {
        for (round = 0; round < SEGMENTS; round++) {
            segment();
            for (pair = 0; pair < PAIRS; pair++) blocks[pair] = kept(malloc(24));
            for (pair = 0; pair < PAIRS; pair++) free(blocks[pair]);
        }
        segment();
        return 0;
    }
    for (round = 0; round < SEGMENTS; round++) {
        segment();
        for (pair = 0; pair < PAIRS; pair++) {
            if (told) heapledger_allocated(heap, pool + pair * 32, 24, 0);
            blocks[pair] = kept(malloc(24));
            if (calls) hidden_ = (void *)(size_t)heapledger_label_now();
        }
        for (pair = 0; pair < PAIRS; pair++) {
            if (told) heapledger_freed(pool + pair * 32, 0);
            free(blocks[pair]);
        }
    }
    segment();
    return 0;
}

#endif
