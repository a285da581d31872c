/* Traces in buffers of the program's own: their states, what becomes of each call, and the text. Prints "whole". */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#define HEAPLEDGER_STDIO
#include "check.h"
#include <heapledger.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static size_t buffer[1 << 24];

static int start(int mode, unsigned depth, size_t records) {
    struct heapledger_trace_options options = {sizeof options, mode, depth, 0, 1};
    int trace = heapledger_trace_start(buffer, heapledger_trace_words(records, &options), &options);
    CHECK(trace > 0);
    return trace;
}

static struct heapledger_trace_sums figures(int trace) {
    struct heapledger_trace_sums sums;
    sums.size = sizeof sums;
    EQUAL(heapledger_trace_figures(trace, &sums), 0);
    EQUAL(sums.allocations, sums.frees + sums.lost_live + sums.live_blocks);
    return sums;
}

static struct heapledger_trace_record get(int trace, size_t index) {
    struct heapledger_trace_record record;
    record.size = sizeof record;
    EQUAL(heapledger_trace_get(trace, index, &record), 0);
    return record;
}

/* What lives is there, in its order. */
static void leaks(void) {
    int trace = start(HEAPLEDGER_LEAKS, 2, 8);
    void *one = kept(malloc(64)), *two = kept(malloc(96)), *three;
    EQUAL(heapledger_trace_count(trace), 2);
    CHECK(get(trace, 0).block == one && get(trace, 1).block == two);
    free(one);
    EQUAL(heapledger_trace_count(trace), 1);
    CHECK(get(trace, 0).block == two && get(trace, 0).bytes == 96);
    free(two);
    EQUAL(heapledger_trace_count(trace), 0);
    three = kept(calloc(4, 16));
    EQUAL(heapledger_trace_count(trace), 1);
    EQUAL(get(trace, 0).bytes, 64);
    free(three);
    EQUAL(heapledger_trace_end(trace), 0);
}

/* No room: the oldest goes, and that is counted; of freed ones these first. */
static void overflow(void) {
    int trace = start(HEAPLEDGER_LEAKS, 0, 8), index;
    void *blocks[10];
    for (index = 0; index < 10; index++) blocks[index] = kept(malloc(10 + (size_t)index));
    EQUAL(heapledger_trace_count(trace), 8);
    CHECK(get(trace, 7).block == blocks[9] && get(trace, 0).block == blocks[2]);
    EQUAL(figures(trace).lost_live, 2);
    EQUAL(figures(trace).lost_live_bytes, 21);
    for (index = 0; index < 9; index++) free(blocks[index]);
    EQUAL(heapledger_trace_count(trace), 1);
    CHECK(get(trace, 0).block == blocks[9]);
    EQUAL(figures(trace).unknown_frees, 2);
    free(blocks[9]);
    EQUAL(heapledger_trace_end(trace), 0);

    trace = start(HEAPLEDGER_ALL, 0, 2);
    for (index = 0; index < 3; index++) blocks[index] = kept(malloc(10));
    EQUAL(heapledger_trace_count(trace), 2);
    EQUAL(figures(trace).capacity, 2);
    EQUAL(figures(trace).allocations, 3);
    EQUAL(figures(trace).lost_live, 1);
    for (index = 0; index < 3; index++) free(blocks[index]);
    EQUAL(figures(trace).frees + figures(trace).unknown_frees, 3);
    EQUAL(heapledger_trace_restart(trace), 0);
    EQUAL(figures(trace).most_records, 0);
    blocks[0] = kept(malloc(10));
    free(kept(malloc(20)));
    blocks[1] = kept(malloc(30)); /* the freed one goes, and not the live one */
    EQUAL(figures(trace).lost_live, 0);
    EQUAL(figures(trace).lost_freed, 1);
    CHECK(get(trace, 0).block == blocks[0] && get(trace, 1).block == blocks[1]);
    free(blocks[0]);
    free(blocks[1]);
    EQUAL(heapledger_trace_end(trace), 0);
}

static void pauses(void) {
    int trace = start(HEAPLEDGER_LEAKS, 1, 8);
    void *one = kept(malloc(1)), *two = kept(malloc(2)), *three;
    free(one);
    EQUAL(heapledger_trace_count(trace), 1);
    EQUAL(heapledger_trace_pause(trace), 0);
    three = kept(malloc(3));
    EQUAL(heapledger_trace_count(trace), 1);
    free(three);
    EQUAL(heapledger_trace_count(trace), 1);
    free(two);
    EQUAL(heapledger_trace_count(trace), 0);
    EQUAL(heapledger_trace_resume(trace), 0);
    one = kept(malloc(4));
    EQUAL(heapledger_trace_count(trace), 1);
    free(one);
    EQUAL(heapledger_trace_end(trace), 0);
}

/* Every call in every state. */
static void states(void) {
    int trace = start(HEAPLEDGER_ALL, 0, 8);
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_ALL, 2, 0, 0};
    struct heapledger_trace_record record;
    struct heapledger_trace_sums sums;
    EQUAL(heapledger_trace_resume(trace), HEAPLEDGER_E_NOT_SO); /* it runs */
    EQUAL(figures(trace).state, 2);
    EQUAL(heapledger_trace_pause(trace), 0);
    EQUAL(heapledger_trace_pause(trace), HEAPLEDGER_E_NOT_SO);
    EQUAL(figures(trace).state, 1);
    EQUAL(heapledger_trace_restart(trace), 0); /* starting anew is always possible */
    EQUAL(figures(trace).state, 2);
    EQUAL(heapledger_trace_restart(trace), 0);
    EQUAL(heapledger_trace_stop(trace), 0);
    EQUAL(heapledger_trace_stop(trace), HEAPLEDGER_E_NOT_SO);
    EQUAL(heapledger_trace_pause(trace), HEAPLEDGER_E_NOT_SO);
    EQUAL(figures(trace).state, 0);
    EQUAL(heapledger_trace_resume(trace), 0);
    EQUAL(heapledger_trace_pause(trace), 0);
    EQUAL(heapledger_trace_resume(trace), 0);
    EQUAL(heapledger_trace_pause(trace), 0);
    EQUAL(heapledger_trace_stop(trace), 0);
    EQUAL(heapledger_trace_restart(trace), 0);

    record.size = sizeof record;
    EQUAL(heapledger_trace_get(trace, 0, &record), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_trace_get(trace, (size_t)-1, &record), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_trace_get(trace, 0, NULL), HEAPLEDGER_E_INVALID);
    record.size = 24;
    EQUAL(heapledger_trace_get(trace, 0, &record), HEAPLEDGER_E_TOO_SMALL);
    EQUAL(heapledger_trace_figures(trace, NULL), HEAPLEDGER_E_INVALID);
    sums.size = sizeof sums - 1;
    EQUAL(heapledger_trace_figures(trace, &sums), HEAPLEDGER_E_TOO_SMALL);
    EQUAL(heapledger_trace_end(trace), 0);
    EQUAL(heapledger_trace_end(trace), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_trace_pause(trace), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_trace_count(trace), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_trace_dump(trace, ~0u, NULL), HEAPLEDGER_E_UNKNOWN);

    /* Buffers that cannot be. */
    EQUAL(heapledger_trace_start(NULL, 1000, &options), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_trace_start(buffer, 0, &options), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_trace_start(buffer, 3, &options), HEAPLEDGER_E_TOO_SMALL);
    EQUAL(heapledger_trace_start((size_t *)((char *)buffer + 1), 1000, &options), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_trace_start(buffer, 1000, NULL), HEAPLEDGER_E_INVALID);
    options.mode = 2;
    EQUAL(heapledger_trace_start(buffer, 1000, &options), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_trace_words(10, &options), 0);
    options.mode = 0;
    options.depth = 33;
    EQUAL(heapledger_trace_start(buffer, 1000, &options), HEAPLEDGER_E_INVALID);
    options.depth = 32;
    options.size = 4;
    EQUAL(heapledger_trace_start(buffer, 1000, &options), HEAPLEDGER_E_TOO_SMALL);
    /* A record has two words more for each frame. */
    options.size = sizeof options;
    options.depth = 0;
    {
        size_t without = heapledger_trace_words(1, &options);
        options.depth = 32;
        EQUAL(heapledger_trace_words(1, &options), without + 64);
        EQUAL(heapledger_trace_words(5, &options), 5 * (without + 64));
        EQUAL(heapledger_trace_words((size_t)-1, &options), (size_t)-1);
    }
}

/* The right record, whatever becomes of addresses and of realloc. */
static void used_again(void) {
    int trace = start(HEAPLEDGER_ALL, 4, 64);
    struct heapledger_trace_record first, second;
    void *one = kept(malloc(100)), *two;
    free(one);
    two = kept(malloc(98));
    CHECK(one == two); /* glibc's thread cache */
    free(two);
    EQUAL(heapledger_trace_count(trace), 2);
    first = get(trace, 0);
    second = get(trace, 1);
    CHECK(first.freed && second.freed && first.bytes == 100 && second.bytes == 98 && first.block == second.block);
    CHECK(first.depths[1] > 0 && second.depths[1] > 0 && first.times_ns[1] <= second.times_ns[0]);
    EQUAL(figures(trace).live_blocks, 0);

    one = kept(malloc(10));
    one = kept(realloc(one, 16)); /* in place */
    EQUAL(figures(trace).live_blocks, 1);
    EQUAL(figures(trace).live_bytes, 16);
    CHECK(kept(realloc(one, (size_t)-1 - 4096)) == NULL);
    EQUAL(figures(trace).live_bytes, 16);
    one = kept(realloc(one, 100000));
    EQUAL(figures(trace).live_bytes, 100000);
    free(one);
    EQUAL(figures(trace).live_blocks, 0);
    one = kept(realloc(NULL, 30));
    EQUAL(figures(trace).live_bytes, 30);
    one = kept(realloc(one, 0));
    EQUAL(figures(trace).live_blocks, 0);
    free(kept(NULL));
    EQUAL(figures(trace).unknown_frees, 0);

    EQUAL(heapledger_trace_restart(trace), 0);
    one = kept(malloc(1));
    two = kept(malloc(2));
    free(one);
    free(two);
    EQUAL(get(trace, 1).number, 2);
    EQUAL(heapledger_trace_end(trace), 0);
}

/* get() by any index in any order. */
static void any_order(void) {
    int trace = start(HEAPLEDGER_LEAKS, 0, 16), index;
    static const int order[] = {0, 1, 2, 3, 4, 0, 5, 4, 9, 0, 9, 8};
    void *blocks[10];
    for (index = 0; index < 10; index++) blocks[index] = kept(malloc(100));
    for (index = 0; index < 12; index++) CHECK(get(trace, (size_t)order[index]).block == blocks[order[index]]);
    for (index = 0; index < 10; index++) free(blocks[index]);
    EQUAL(heapledger_trace_end(trace), 0);
}

/* Stacks begin with the caller of malloc, of whatever function, and are as deep as was said. */
__attribute__((noinline)) static void *caller_a(size_t bytes) { void *block = malloc(bytes); __asm__ volatile("" : "+r"(block)); return block; }
__attribute__((noinline)) static void *caller_c(size_t bytes) { void *block = calloc(1, bytes); __asm__ volatile("" : "+r"(block)); return block; }
__attribute__((noinline)) static void *caller_r(size_t bytes) { void *block = realloc(NULL, bytes); __asm__ volatile("" : "+r"(block)); return block; }
__attribute__((noinline)) static void *caller_l(size_t bytes) { void *block = aligned_alloc(16, bytes); __asm__ volatile("" : "+r"(block)); return block; }
__attribute__((noinline)) static void *caller_y(size_t bytes) { void *block = reallocarray(NULL, 1, bytes); __asm__ volatile("" : "+r"(block)); return block; }
__attribute__((noinline)) static void *deep(int levels) {
    void *block = levels ? deep(levels - 1) : malloc(5);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void stacks(void) {
    void *(*callers[])(size_t) = {caller_a, caller_c, caller_r, caller_l, caller_y};
    static const unsigned depths[] = {0, 1, 2, 32};
    size_t index, depth;
    for (depth = 0; depth < 4; depth++) {
        int trace = start(HEAPLEDGER_LEAKS, depths[depth], 16);
        void *blocks[5];
        for (index = 0; index < 5; index++) {
            blocks[index] = callers[index](48);
            EQUAL(heapledger_trace_count(trace), index + 1);
            if (depths[depth]) {
                uintptr_t frame = (uintptr_t)get(trace, index).stacks[0][0], first = (uintptr_t)callers[index];
                CHECK(frame > first && frame - first < 100);
            }
            CHECK(get(trace, index).depths[0] <= depths[depth]);
            if (depths[depth] && depths[depth] < 3) EQUAL(get(trace, index).depths[0], depths[depth]);
        }
        for (index = 0; index < 5; index++) free(blocks[index]);
        blocks[0] = deep(100);
        EQUAL(get(trace, 0).depths[0], depths[depth]);
        free(blocks[0]);
        EQUAL(heapledger_trace_end(trace), 0);
    }
}

/* A block of a pool is traced as well. */
static void own_heap(void) {
    static char pool[64];
    struct heapledger_resize resize;
    int heap = heapledger_heap_begin("pool", pool, sizeof pool, 0), trace = start(HEAPLEDGER_ALL, 4, 16);
    EQUAL(heapledger_allocated(heap, pool, 24, 0), 0);
    CHECK(get(trace, 0).block == pool && get(trace, 0).bytes == 24);
    EQUAL(heapledger_resizing(pool, &resize), 0);
    EQUAL(heapledger_resized(&resize, heap, NULL, 0, 0), 0);
    EQUAL(figures(trace).live_bytes, 24);
    EQUAL(heapledger_resizing(pool, &resize), 0);
    EQUAL(heapledger_resized(&resize, heap, pool, 40, 0), 0);
    EQUAL(figures(trace).live_bytes, 40);
    EQUAL(heapledger_freed(pool, 0), 0);
    EQUAL(figures(trace).live_blocks, 0);
    EQUAL(heapledger_trace_end(trace), 0);
    heapledger_heap_end(heap);
}

/* Two threads, 10^6 calls: figures are exact, nothing is lost. */
static int rounds = 250000;
static void *hammers(void *data) {
    unsigned state = (unsigned)(uintptr_t)data;
    void *blocks[64] = {0};
    int round;
    for (round = 0; round < rounds; round++) {
        int at = (state = state * 1103515245 + 12345) >> 16 & 63;
        blocks[at] = blocks[at] ? (free(blocks[at]), (void *)NULL) : malloc(16 + (state >> 8) % 300);
    }
    for (round = 0; round < 64; round++) free(blocks[round]);
    return NULL;
}

static void *toggles(void *data) {
    int trace = *(int *)data, round;
    for (round = 0; round < 200; round++) {
        heapledger_trace_pause(trace);
        usleep(200);
        heapledger_trace_resume(trace);
        usleep(200);
    }
    return NULL;
}

static void two_threads(int toggled) {
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 0, 0, 0};
    pthread_t threads[3];
    struct heapledger_trace_sums sums;
    int trace = heapledger_trace_start(buffer, heapledger_trace_words(4096, &options), &options);
    CHECK(trace > 0);
    CHECK(pthread_create(&threads[0], NULL, hammers, (void *)3) == 0 && pthread_create(&threads[1], NULL, hammers, (void *)5) == 0);
    if (toggled) {
        CHECK(pthread_create(&threads[2], NULL, toggles, &trace) == 0);
        pthread_join(threads[2], NULL);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    sums = figures(trace);
    EQUAL(sums.lost_live, 0);
    EQUAL(sums.missed_calls, 0);
    if (!toggled) CHECK(sums.allocations >= (heapledger_u64)rounds / 2);
    CHECK(sums.live_blocks < 10); /* of threads that begin, and their stacks */
    EQUAL(heapledger_trace_end(trace), 0);
}

/* Two threads make a million calls, and are interrupted all the time, by a handler that tells of blocks of its own. */
static int own_blocks_heap;
static atomic_int told, is_over;
static __thread char of_thread[32];

static void tells(int number) {
    (void)number;
    EQUAL(heapledger_allocated(own_blocks_heap, of_thread, 16, 0) >= HEAPLEDGER_E_BUSY, 1);
    heapledger_freed(of_thread, 0);
    atomic_fetch_add(&told, 1);
}

static void *interrupts(void *data) {
    pthread_t *threads = data;
    while (!atomic_load(&is_over)) {
        pthread_kill(threads[0], SIGUSR1);
        pthread_kill(threads[1], SIGUSR1);
        usleep(100);
    }
    return NULL;
}

/* Each call is one block given or one taken back. */
static void *calls(void *data) {
    void *blocks[64] = {0};
    int round;
    for (round = 0; round < 2 * rounds || atomic_load(&told) == 0; round++) {
        if (blocks[round & 63]) {
            free(blocks[round & 63]);
            blocks[round & 63] = NULL;
        } else {
            blocks[round & 63] = malloc(24);
            __asm__ volatile("" : "+r"(blocks[round & 63]));
        }
    }
    for (round = 0; round < 64; round++) free(blocks[round]);
    pthread_barrier_wait(data);
    return NULL;
}

static void interrupted(void) {
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 0, 0, 0};
    struct heapledger_trace_sums sums;
    struct sigaction action;
    pthread_t threads[3];
    pthread_barrier_t end;
    int trace, expected;
    memset(&action, 0, sizeof action);
    action.sa_handler = tells;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && pthread_barrier_init(&end, NULL, 3) == 0);
    own_blocks_heap = heapledger_heap_begin("of a handler", NULL, 0, 0);
    trace = heapledger_trace_start(buffer, heapledger_trace_words(4096, &options), &options);
    CHECK(trace > 0);
    CHECK(pthread_create(&threads[0], NULL, calls, &end) == 0 && pthread_create(&threads[1], NULL, calls, &end) == 0);
    CHECK(pthread_create(&threads[2], NULL, interrupts, threads) == 0);
    pthread_barrier_wait(&end);
    atomic_store(&is_over, 1);
    pthread_join(threads[2], NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    sums = figures(trace);
    expected = 2 * rounds + atomic_load(&told);
    EQUAL(sums.missed_calls + sums.lost_live + sums.lost_freed, 0);
    /* And what threads need for themselves. */
    CHECK(sums.allocations >= (heapledger_u64)expected && sums.allocations < (heapledger_u64)expected + 1000);
    CHECK(sums.live_blocks < 10 && sums.peak_bytes >= 24);
    EQUAL(heapledger_trace_end(trace), 0);
    EQUAL(heapledger_heap_end(own_blocks_heap), 0);
}

/* A free costs the same whether there are a hundred records or a hundred thousand, of known and of unknown blocks. */
static double ns_per_free(size_t records, int known) {
    int trace = start(HEAPLEDGER_LEAKS, 0, records + 8192);
    size_t index;
    void **live = calloc(records, sizeof *live), *blocks[4096];
    struct timespec begun, ended;
    int round;
    double best = 1e9;
    for (index = 0; index < records; index++) live[index] = malloc(24);
    for (round = 0; round < 5; round++) {
        if (!known) heapledger_trace_pause(trace);
        for (index = 0; index < 4096; index++) blocks[index] = malloc(24);
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (index = 0; index < 4096; index++) free(blocks[index]);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        if (!known) heapledger_trace_resume(trace);
        {
            double ns = ((double)(ended.tv_sec - begun.tv_sec) * 1e9 + (double)(ended.tv_nsec - begun.tv_nsec)) / 4096;
            if (ns < best) best = ns;
        }
    }
    EQUAL(heapledger_trace_end(trace), 0);
    for (index = 0; index < records; index++) free(live[index]);
    free(live);
    return best;
}

/* A forked child goes on in its own copy. */
static void in_a_child(void) {
    int trace = start(HEAPLEDGER_LEAKS, 2, 16), status;
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 0, 0, 0};
    void *block = kept(malloc(10));
    pid_t child = fork();
    if (child == 0) {
        static size_t own[1000];
        free(block);
        EQUAL(heapledger_trace_count(trace), 0);
        EQUAL(heapledger_trace_end(trace), 0);
        trace = heapledger_trace_start(own, 1000, &options);
        CHECK(trace > 0);
        block = kept(malloc(77));
        EQUAL(figures(trace).live_bytes, 77);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    EQUAL(heapledger_trace_count(trace), 1);
    free(block);
    EQUAL(heapledger_trace_end(trace), 0);
}

/* Eight, and no more. */
static void many(void) {
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 0, 0, 1};
    int traces[8], index;
    for (index = 0; index < 8; index++) CHECK((traces[index] = heapledger_trace_start(buffer + index * 1000, 1000, &options)) > 0);
    EQUAL(heapledger_trace_start(buffer + 9000, 1000, &options), HEAPLEDGER_E_NO_ROOM);
    free(kept(malloc(10)));
    for (index = 0; index < 8; index++) {
        EQUAL(figures(traces[index]).allocations, 1);
        EQUAL(heapledger_trace_end(traces[index]), 0);
    }
}

static int collects(void *to, const char *text, size_t bytes) {
    char *all = to;
    strncat(all, text, bytes);
    return 0;
}

static int refuses(void *to, const char *text, size_t bytes) {
    (void)text;
    (void)bytes;
    return ++*(int *)to == 1 ? -1 : 0;
}

/* The text, to where it is wanted. */
static void dumps(void) {
    static char external[64], other[64];
    int trace = start(HEAPLEDGER_ALL, 2, 8), pieces = 0, outside, elsewhere;
    char text[8192] = "", expected[256];
    struct heapledger_output to = {sizeof to, collects, text, -1}, refusing = {sizeof to, refuses, &pieces, -1}, nowhere = {sizeof to, NULL, NULL, 999}, file = heapledger_file(stdout);
    void *one = kept(malloc(10)), *two = kept(malloc(200));
    free(two);
    outside = heapledger_heap_begin("outside", external, sizeof external, HEAPLEDGER_CAP_SPIRAM);
    elsewhere = heapledger_heap_begin("elsewhere", other, sizeof other, 0);
    EQUAL(heapledger_allocated(outside, external, 33, 0), 0);
    EQUAL(heapledger_allocated(elsewhere, other, 44, 0), 0);
    EQUAL(heapledger_trace_stop(trace), 0);
    EQUAL(heapledger_trace_dump(trace, HEAPLEDGER_CAP_INTERNAL | HEAPLEDGER_CAP_SPIRAM, &to), 0);
    CHECK(strstr(text, "====== Heap Trace: 4 records (8 capacity) ======\n") == text);
    snprintf(expected, sizeof expected, "\n    10 bytes (@ 0x%08lx, Internal) allocated CPU 0 ccount 0x", (unsigned long)one);
    CHECK(strstr(text, expected) != NULL && strstr(text, " caller 0x") != NULL && strstr(text, "\nfreed by 0x") != NULL);
    snprintf(expected, sizeof expected, "\n    33 bytes (@ 0x%08lx,    PSRAM) allocated", (unsigned long)external);
    CHECK(strstr(text, expected) != NULL && strstr(text, "    44 bytes (@ ") == NULL);
    CHECK(strstr(text, "\nMode: Heap Trace All\n43 bytes alive in trace (2/4 allocations)\nrecords: 4 (8 capacity, 4 high water mark)\n"
                       "total allocations: 4\ntotal frees: 1\n================================\n") != NULL);
    text[0] = 0;
    EQUAL(heapledger_trace_dump(trace, HEAPLEDGER_CAP_SPIRAM, &to), 0);
    CHECK(strstr(text, "Internal)") == NULL && strstr(text, "\n33 bytes alive in trace (1/4 allocations)\n") != NULL);
    text[0] = 0;
    EQUAL(heapledger_trace_dump(trace, ~0u, &to), 0);
    snprintf(expected, sizeof expected, "\n    44 bytes (@ 0x%08lx) allocated", (unsigned long)other);
    CHECK(strstr(text, expected) != NULL);
    text[0] = 0;
    EQUAL(heapledger_trace_dump(trace, 0, &to), 0);
    CHECK(strstr(text, " bytes (@ ") == NULL && strstr(text, "\n0 bytes alive in trace (0/4 allocations)\nrecords: 4 (") != NULL);
    CHECK(heapledger_trace_dump(trace, ~0u, &refusing) < 0);
    EQUAL(pieces, 1);
    EQUAL(heapledger_trace_dump(trace, ~0u, &nowhere), -1009);
    nowhere.size--;
    EQUAL(heapledger_trace_dump(trace, ~0u, &nowhere), HEAPLEDGER_E_TOO_SMALL);
    EQUAL(heapledger_freed(external, 0), 0);
    EQUAL(heapledger_freed(other, 0), 0);
    heapledger_heap_end(outside);
    heapledger_heap_end(elsewhere);
    fflush(stdout);
    EQUAL(heapledger_trace_dump(trace, ~0u, NULL), 0);
    EQUAL(heapledger_trace_dump(trace, ~0u, &file), 0);
    free(one);
    EQUAL(heapledger_trace_end(trace), 0);
}

int main(int arguments, char **words) {
    CHECK(HEAPLEDGER_PRESENT());
    if (arguments > 1 && strcmp(words[1], "curve") == 0) {
        size_t records;
        for (records = 100; records <= 1000000; records *= 10)
            printf("%zu %.0f %.0f\n", records, ns_per_free(records, 1), ns_per_free(records, 0));
        return 0;
    }
    if (arguments > 1) rounds = atoi(words[1]);
    leaks();
    overflow();
    pauses();
    states();
    used_again();
    any_order();
    stacks();
    own_heap();
    two_threads(0);
    two_threads(1);
    interrupted();
    in_a_child();
    many();
    dumps();
    puts("whole");
    return 0;
}
