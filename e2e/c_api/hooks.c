/* Hooks on calls: what they are told, in which order, and what they may do. Prints "whole". */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#include "check.h"
#include <errno.h>
#include <heapledger.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What hooks have seen of the main thread. */
static volatile struct { int what, kind, recorded, overflow, heap; const void *block; size_t bytes, alignment; unsigned thread, capabilities; } seen[64];
/* Compilers take it for granted that malloc changes nothing of the program's. */
static volatile int count;
static volatile char name[64][32];
static unsigned own;

static void notes(const struct heapledger_event *event, void *data) {
    CHECK(event->size == sizeof *event && data == (void *)&count);
    if (event->thread != own || count == 64) return;
    seen[count].what = event->what;
    seen[count].kind = event->kind;
    seen[count].recorded = event->recorded;
    seen[count].overflow = event->overflow;
    seen[count].heap = event->heap;
    seen[count].block = event->block;
    seen[count].bytes = event->bytes;
    seen[count].alignment = event->alignment;
    seen[count].thread = event->thread;
    seen[count].capabilities = event->capabilities;
    strcpy((char *)name[count], event->function);
    errno = ERANGE;
    count++;
}

static void is(int index, int what, const char *function, const void *block, size_t bytes) {
    CHECK(index < count);
    EQUAL(seen[index].what, what);
    if (strcmp((char *)name[index], function) != 0) fprintf(stderr, "%s\n", (char *)name[index]);
    CHECK(strcmp((char *)name[index], function) == 0);
    CHECK(seen[index].block == block);
    EQUAL(seen[index].bytes, bytes);
}

static int gave, taken, refused;

static void begin(void) {
    gave = heapledger_on_alloc(notes, (void *)&count);
    taken = heapledger_on_free(notes, (void *)&count);
    refused = heapledger_on_refused(notes, (void *)&count);
    CHECK(gave > 0 && taken > 0 && refused > 0 && gave != taken);
    count = 0;
}

static void end(void) {
    EQUAL(heapledger_hook_end(gave), 0);
    EQUAL(heapledger_hook_end(taken), 0);
    EQUAL(heapledger_hook_end(refused), 0);
    EQUAL(heapledger_hook_end(gave), HEAPLEDGER_E_UNKNOWN);
}

/* Each function with its size and name; a resized block is taken back and given. */
static void each_call(void) {
    void *one, *two, *three;
    begin();
    errno = 0;
    one = kept(malloc(1234));
    two = kept(realloc(one, 1234));
    free(two);
    EQUAL(*(volatile int *)&errno, 0);
    EQUAL(count, 4);
    is(0, HEAPLEDGER_EVENT_GAVE, "malloc", one, 1234);
    EQUAL(seen[0].recorded, 1);
    EQUAL(seen[0].kind, HEAPLEDGER_KIND_MALLOC);
    is(1, HEAPLEDGER_EVENT_TAKES_BACK, "realloc", one, 1234);
    EQUAL(seen[1].recorded, 1);
    is(2, HEAPLEDGER_EVENT_GAVE, "realloc", two, 1234);
    is(3, HEAPLEDGER_EVENT_TAKES_BACK, "free", two, 1234);
    end();

    begin();
    one = kept(calloc(4, 16));
    two = kept(aligned_alloc(0x200, 1024));
    CHECK(posix_memalign(&three, 0x200, 1234) == 0);
    free(one);
    free(two);
    free(three);
    EQUAL(count, 6);
    is(0, HEAPLEDGER_EVENT_GAVE, "calloc", one, 64);
    is(1, HEAPLEDGER_EVENT_GAVE, "aligned_alloc", two, 1024);
    EQUAL(seen[1].alignment, 0x200);
    is(2, HEAPLEDGER_EVENT_GAVE, "posix_memalign", three, 1234);
    EQUAL(seen[2].alignment, 0x200);
    is(5, HEAPLEDGER_EVENT_TAKES_BACK, "free", three, 1234);
    end();

    begin();
    one = kept(reallocarray(NULL, 3, 100));
    one = kept(reallocarray(one, 5, 100));
    one = kept(realloc(one, 0)); /* frees */
    CHECK(one == NULL);
    EQUAL(count, 4);
    EQUAL(seen[0].bytes, 300);
    EQUAL(seen[1].what, HEAPLEDGER_EVENT_TAKES_BACK);
    EQUAL(seen[2].bytes, 500);
    EQUAL(seen[3].what, HEAPLEDGER_EVENT_TAKES_BACK);
    EQUAL(seen[3].bytes, 500);
    end();
}

/* A failed call is told to who wants to know of these, and to nobody else. */
static void failed_calls(void) {
    static volatile size_t too_many = (size_t)-1 - 4096;
    size_t huge = too_many;
    void *block = kept(malloc(10)), *other;
    begin();
    CHECK(kept(malloc(huge)) == NULL && *(volatile int *)&errno == ENOMEM);
    free(kept(NULL));
    CHECK(kept(calloc(SIZE_MAX / 2 + 4, 2)) == NULL);
    CHECK(kept(realloc(block, huge)) == NULL);
    EQUAL(posix_memalign(&other, 0x200, huge), ENOMEM);
    CHECK(kept(aligned_alloc(0x200, huge)) == NULL);
    EQUAL(count, 7);
    is(0, HEAPLEDGER_EVENT_REFUSED, "malloc", NULL, huge);
    is(1, HEAPLEDGER_EVENT_REFUSED, "calloc", NULL, SIZE_MAX);
    CHECK(seen[1].overflow && !seen[0].overflow);
    is(2, HEAPLEDGER_EVENT_TAKES_BACK, "realloc", block, 10);
    is(3, HEAPLEDGER_EVENT_REFUSED, "realloc", NULL, huge);
    is(4, HEAPLEDGER_EVENT_STAYS, "realloc", block, 10);
    is(5, HEAPLEDGER_EVENT_REFUSED, "posix_memalign", NULL, huge);
    is(6, HEAPLEDGER_EVENT_REFUSED, "aligned_alloc", NULL, huge);
    end();
    free(block);
}

/* Who asked for what there is not: the thread, and its stack. */
static volatile int asked;
static __attribute__((noinline)) void *asks(size_t bytes) {
    void *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void finds_who_asked(const struct heapledger_event *event, void *data) {
    void *frames[32];
    size_t depth = heapledger_backtrace(frames, 32, 0), index;
    uintptr_t first = (uintptr_t)asks;
    CHECK(event->thread == (unsigned)syscall(SYS_gettid) && data == (void *)&asked);
    for (index = 0; index < depth; index++) {
        if ((uintptr_t)frames[index] > first && (uintptr_t)frames[index] - first < 100) {
            asked++;
            break;
        }
    }
}

static void *asks_elsewhere(void *data) {
    CHECK(asks((size_t)-1 - 4096) == NULL);
    return data;
}

static void who_asked(void) {
    pthread_t thread;
    int hook = heapledger_on_refused(finds_who_asked, (void *)&asked);
    CHECK(asks((size_t)-1 - 4096) == NULL);
    EQUAL(asked, 1);
    CHECK(pthread_create(&thread, NULL, asks_elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
    EQUAL(asked, 2);
    EQUAL(heapledger_hook_end(hook), 0);
    /* It was removed. */
    CHECK(asks((size_t)-1 - 4096) == NULL);
    EQUAL(asked, 2);
}

/* An allocator with several heaps tells of one call when none of them has room, with what it tried last. */
static void last_of_three(void) {
    static char pools[3][64];
    int heaps[3], index;
    for (index = 0; index < 3; index++) CHECK((heaps[index] = heapledger_heap_begin("one of three", pools[index], 64, 1u << index)) > 0);
    begin();
    EQUAL(heapledger_refused(heaps[2], 1000, 0x200, HEAPLEDGER_KIND_HEAP_CAPS_MALLOC), 0);
    EQUAL(count, 1);
    is(0, HEAPLEDGER_EVENT_REFUSED, "heap_caps_malloc", NULL, 1000);
    EQUAL(seen[0].capabilities, 4);
    EQUAL(seen[0].heap, heaps[2]);
    EQUAL(seen[0].alignment, 0x200);
    CHECK(kept(malloc((size_t)-1 - 4096)) == NULL);
    EQUAL(seen[1].capabilities, HEAPLEDGER_CAP_DEFAULT);
    end();
    for (index = 0; index < 3; index++) EQUAL(heapledger_heap_end(heaps[index]), 0);
}

/* One of two is enough. */
static void only_one(void) {
    int hook = heapledger_on_free(notes, (void *)&count);
    void *block = kept(malloc(100));
    count = 0;
    free(block);
    EQUAL(count, 1);
    is(0, HEAPLEDGER_EVENT_TAKES_BACK, "free", block, 100);
    EQUAL(heapledger_hook_calls(hook), 1);
    EQUAL(heapledger_hook_running(hook), 0);
    free(kept(malloc(100)));
    EQUAL(heapledger_hook_calls(hook), 1);
    EQUAL(heapledger_hook_end(hook), 0);
    EQUAL(heapledger_hook_calls(hook), 0);
}

/* Blocks of the program's own heaps are told with the heap's number. */
static void own_heap(void) {
    static char pool[64];
    struct heapledger_resize resize;
    int heap = heapledger_heap_begin("pool", pool, sizeof pool, 0);
    CHECK(heap > 0);
    begin();
    EQUAL(heapledger_allocated(heap, pool, 24, 0), 0);
    EQUAL(heapledger_resizing(pool, &resize), 0);
    EQUAL(heapledger_resized(&resize, heap, pool, 32, 0), 0);
    EQUAL(heapledger_freed(pool, 0), 0);
    EQUAL(heapledger_refused(heap, 1000, 0, 0), 0);
    EQUAL(count, 5);
    EQUAL(seen[0].heap, heap);
    EQUAL(seen[0].recorded, 1);
    is(0, HEAPLEDGER_EVENT_GAVE, "pool_alloc", pool, 24);
    EQUAL(seen[1].what, HEAPLEDGER_EVENT_TAKES_BACK);
    EQUAL(seen[1].bytes, 24);
    EQUAL(seen[2].bytes, 32);
    EQUAL(seen[3].bytes, 32);
    EQUAL(seen[4].what, HEAPLEDGER_EVENT_REFUSED);
    EQUAL(seen[4].bytes, 1000);
    EQUAL(seen[3].heap, heap);
    end();
    heapledger_heap_end(heap);
}

static struct heapledger_hook_sums odd(void) {
    struct heapledger_hook_sums sums;
    sums.size = sizeof sums;
    EQUAL(heapledger_hook_figures(&sums), 0);
    EQUAL(heapledger_hook_figures(NULL), HEAPLEDGER_E_INVALID);
    return sums;
}

/* A hook that allocates is not told of that. */
static volatile int deep, deepest, nested;
static void allocates(const struct heapledger_event *event, void *data) {
    (void)event;
    (void)data;
    deepest = ++deep > deepest ? deep : deepest;
    free(kept(malloc(50)));
    nested++;
    deep--;
}

static void within_a_hook(void) {
    int hook = heapledger_on_alloc(allocates, NULL);
    free(kept(malloc(10)));
    free(kept(realloc(kept(malloc(10)), 20)));
    EQUAL(heapledger_hook_end(hook), 0);
    EQUAL(deepest, 1);
    EQUAL(nested, 3);
    EQUAL(odd().nested, 3); /* of frees nobody is told */
}

/* A block that a hook is just told of stays: it must not free it. */
static void frees_it(const struct heapledger_event *event, void *data) {
    (void)data;
    free((void *)event->block);
}

static void what_is_just_told(void) {
    int hook = heapledger_on_alloc(frees_it, NULL);
    char *block = kept(malloc(100));
    EQUAL(heapledger_hook_end(hook), 0);
    memset(block, 1, 100);
    EQUAL(odd().refused, 1);
    EQUAL(odd().untold + odd().left, 0);
    EQUAL(heapledger_is_live(block), 1);
    free(block);
}

/* A signal handler on a stack above that of the thread, which it interrupts inside of a hook, tells of blocks of its own. */
static char of_handler[64];
static volatile int heap_of_handler, in_handler, signalled;
static void handler(int number) {
    (void)number;
    heapledger_allocated(heap_of_handler, of_handler, 16, 0);
    heapledger_freed(of_handler, 0);
    in_handler++;
}

static void is_signalled(const struct heapledger_event *event, void *data) {
    (void)data;
    if (event->block == of_handler || ++signalled > 1000) return;
    raise(SIGUSR1);
}

static void *in_a_thread(void *stack) {
    stack_t above;
    int hook, round;
    memset(&above, 0, sizeof above);
    above.ss_sp = stack;
    above.ss_size = 65536;
    CHECK(sigaltstack(&above, NULL) == 0);
    hook = heapledger_on_alloc(is_signalled, NULL);
    for (round = 0; round < 10; round++) free(kept(malloc(20)));
    EQUAL(heapledger_hook_running(hook), 0);
    EQUAL(heapledger_hook_end(hook), 0);
    return NULL;
}

static void signals(void) {
    char stack[65536];
    struct sigaction action;
    pthread_t thread;
    int hook;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    heap_of_handler = heapledger_heap_begin("of a handler", NULL, 0, 0);
    CHECK(pthread_create(&thread, NULL, in_a_thread, stack) == 0);
    pthread_join(thread, NULL);
    EQUAL(heapledger_heap_end(heap_of_handler), 0);
    CHECK(signalled >= 10 && signalled < 20 && in_handler == signalled);
    /* And the next hook is told as ever. */
    deepest = nested = 0;
    hook = heapledger_on_alloc(allocates, NULL);
    free(kept(malloc(10)));
    EQUAL(heapledger_hook_end(hook), 0);
    EQUAL(deepest, 1);
    EQUAL(nested, 1);
}

/* A map of live blocks, made of events, never sees one allocated that lives. */
#define MAP 65536
static _Atomic(uintptr_t) map[MAP];
static atomic_int wrong, events;

static void maps(const struct heapledger_event *event, void *data) {
    uintptr_t block = (uintptr_t)event->block, expected;
    size_t at = (block >> 4) * 0x9E3779B97F4A7C15u >> 48, step;
    (void)data;
    atomic_fetch_add(&events, 1);
    if (event->what == HEAPLEDGER_EVENT_TAKES_BACK) {
        for (step = 0; step < 4096; step++) {
            expected = block;
            if (atomic_compare_exchange_strong(&map[(at + step) % MAP], &expected, 1)) return;
            if (expected == 0) break;
        }
        if (!data) return; /* it was there before */
        atomic_fetch_add(&wrong, 1);
        return;
    }
    for (step = 0; step < 4096; step++) {
        expected = atomic_load(&map[(at + step) % MAP]);
        if (expected == block) atomic_fetch_add(&wrong, 1);
        if (expected == 0) break;
    }
    for (step = 0; step < 4096; step++) {
        expected = atomic_load(&map[(at + step) % MAP]);
        if (expected <= 1 && atomic_compare_exchange_strong(&map[(at + step) % MAP], &expected, block)) return;
    }
    atomic_fetch_add(&wrong, 1);
}

/* Calls of hooks that come and go meanwhile. */
static atomic_int over;
static atomic_int calls_of_others;

static int rounds = 100000;

static void *hammers(void *data) {
    void *blocks[16] = {0};
    unsigned state = (unsigned)(uintptr_t)data;
    long round;
    /* On a loaded machine the thread whose hooks come and go may not get to run for a while. */
    for (round = 0; round < rounds || (!atomic_load(&calls_of_others) && round < 1000000000); round++) {
        int at = (state = state * 1103515245 + 12345) >> 16 & 15;
        if (state >> 30 == 0) blocks[at] = kept(realloc(blocks[at], 16 + (state >> 8) % 300));
        else if (blocks[at]) { free(blocks[at]); blocks[at] = NULL; }
        else blocks[at] = malloc(16 + (state >> 8) % 300);
    }
    for (round = 0; round < 16; round++) free(blocks[round]);
    return NULL;
}

static void counts(const struct heapledger_event *event, void *data) {
    (void)event;
    CHECK(data == &calls_of_others);
    atomic_fetch_add(&calls_of_others, 1);
}

static void *comes_and_goes(void *data) {
    (void)data;
    while (!atomic_load(&over)) {
        int hook = heapledger_on_free(counts, &calls_of_others);
        CHECK(hook > 0);
        usleep(100);
        while (heapledger_hook_running(hook) > 0) usleep(10);
        CHECK(heapledger_hook_end(hook) == 0);
    }
    return NULL;
}

static void two_threads(void) {
    pthread_t threads[2], other;
    int alloc, frees;
    alloc = heapledger_on_alloc(maps, NULL);
    frees = heapledger_on_free(maps, NULL);
    CHECK(pthread_create(&other, NULL, comes_and_goes, NULL) == 0);
    CHECK(pthread_create(&threads[0], NULL, hammers, (void *)1) == 0);
    CHECK(pthread_create(&threads[1], NULL, hammers, (void *)77) == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    atomic_store(&over, 1);
    pthread_join(other, NULL);
    EQUAL(heapledger_hook_end(alloc), 0);
    EQUAL(heapledger_hook_end(frees), 0);
    EQUAL(wrong, 0);
    CHECK(events > rounds);
    CHECK(calls_of_others > 0);
}

/* Live bytes: once above the limit, and again when they have been below the other one. */
static volatile int risen;
static void rises(const struct heapledger_event *event, void *data) {
    (void)data;
    EQUAL(event->what, HEAPLEDGER_EVENT_LIVE_ABOVE);
    risen++;
}

static void thresholds(void) {
    void *base = kept(malloc(1000000)), *one, *two;
    int hook, low;
    struct heapledger_figures figures;
    int window = heapledger_window_open("live", HEAPLEDGER_ALL, 0);
    figures.size = sizeof figures;
    EQUAL(heapledger_window_figures(window, &figures), 0);
    /* About a million bytes live. */
    hook = heapledger_on_live_above(3000000, 2000000, rises, NULL);
    low = heapledger_on_live_above(10000, 0, rises, NULL);
    CHECK(hook > 0 && low > 0);
    one = kept(malloc(1500000));
    EQUAL(risen, 0);
    two = kept(malloc(1500000));
    EQUAL(risen, 1);
    two = kept(realloc(two, 400000)); /* 2.9 million: above where it is armed again */
    two = kept(realloc(two, 1500000));
    EQUAL(risen, 1);
    free(two);
    free(one); /* 1 million */
    one = kept(malloc(2500000));
    EQUAL(risen, 2);
    EQUAL(heapledger_hook_calls(hook), 2);
    EQUAL(heapledger_hook_calls(low), 0); /* it was above that from the start */
    EQUAL(heapledger_hook_end(hook), 0);
    EQUAL(heapledger_hook_end(low), 0);
    free(one);
    free(base);
    EQUAL(heapledger_on_live_above(10, 11, rises, NULL), HEAPLEDGER_E_INVALID);
}

/* What was traced until then is saved when memory runs low: by whoever is told, at that moment. */
static volatile int saved;
static char saved_text[4096];

static int keeps(void *to, const char *text, size_t bytes) {
    (void)to;
    strncat(saved_text, text, bytes < sizeof saved_text - strlen(saved_text) ? bytes : 0);
    return 0;
}

static void saves(const struct heapledger_event *event, void *data) {
    struct heapledger_output output = {sizeof output, keeps, NULL, -1};
    char path[32];
    EQUAL(event->what, HEAPLEDGER_EVENT_LIVE_ABOVE);
    EQUAL(heapledger_trace_dump(*(int *)data, ~0u, &output), 0);
    snprintf(path, sizeof path, "low.%d.hl", (int)getpid());
    EQUAL(heapledger_snapshot(path), 0);
    EQUAL(unlink(path), 0);
    saved++;
}

static void when_memory_runs_low(void) {
    static size_t buffer[1000];
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 2, 0, 1};
    int trace = heapledger_trace_start(buffer, 1000, &options), hook;
    void *blocks[2];
    CHECK(trace > 0);
    hook = heapledger_on_live_above(20000000, 0, saves, &trace);
    blocks[0] = kept(malloc(12345));
    blocks[1] = kept(malloc(23456789));
    EQUAL(saved, 1);
    CHECK(strstr(saved_text, " 12345 bytes (@ ") != NULL && strstr(saved_text, "23456789 bytes (@ ") != NULL);
    CHECK(strstr(saved_text, "Mode: Heap Trace Leaks\n23469134 bytes 'leaked' in trace (2 allocations)\n") != NULL);
    free(blocks[0]);
    free(blocks[1]);
    EQUAL(heapledger_hook_end(hook), 0);
    EQUAL(heapledger_trace_end(trace), 0);
}

static void large_requests(void) {
    int hook;
    begin();
    end();
    hook = heapledger_on_request_above(100000, notes, (void *)&count);
    count = 0;
    free(kept(malloc(100000)));
    free(kept(malloc(100001)));
    CHECK(kept(malloc((size_t)-1 - 4096)) == NULL);
    EQUAL(count, 2);
    EQUAL(seen[0].what, HEAPLEDGER_EVENT_GAVE);
    EQUAL(seen[0].bytes, 100001);
    EQUAL(seen[1].what, HEAPLEDGER_EVENT_REFUSED);
    EQUAL(heapledger_hook_end(hook), 0);
}

/* Calls that fail on purpose. */
static __attribute__((noinline)) void *from_here(void) {
    void *block = malloc(64);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void faults(void) {
    int nth, every, within;
    void *block, *other = NULL;
    begin();
    nth = heapledger_fail(HEAPLEDGER_RULE_NTH, 2, 1, NULL);
    CHECK(nth > 0);
    block = kept(malloc(10));
    errno = 0;
    CHECK(block != NULL && kept(malloc(77)) == NULL && *(volatile int *)&errno == ENOMEM);
    is(1, HEAPLEDGER_EVENT_REFUSED, "malloc", NULL, 77);
    free(kept(malloc(10)));
    EQUAL(heapledger_fail_calls(nth), 3);
    EQUAL(heapledger_fail_failed(nth), 1);
    EQUAL(heapledger_fail_end(nth), 0);
    EQUAL(heapledger_fail_end(nth), HEAPLEDGER_E_UNKNOWN);
    end();

    every = heapledger_fail(HEAPLEDGER_RULE_FROM_NTH, 1, 1, NULL);
    CHECK(kept(calloc(3, 5)) == NULL && kept(aligned_alloc(64, 64)) == NULL && kept(memalign(64, 64)) == NULL);
    CHECK(kept(realloc(block, 100)) == NULL && kept(reallocarray(block, 10, 10)) == NULL && kept(realloc(NULL, 10)) == NULL);
    EQUAL(posix_memalign(&other, 64, 64), ENOMEM);
    CHECK(other == NULL && kept(valloc(10)) == NULL);
    EQUAL(heapledger_fail_failed(every), 8);
    EQUAL(heapledger_fail_calls(every), 8);
    EQUAL(heapledger_fail_end(every), 0);
    EQUAL(heapledger_is_live(block), 1);
    free(block);

    within = heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 0, (const void *)from_here);
    CHECK(within > 0);
    free(kept(malloc(10)));
    CHECK(from_here() == NULL);
    free(from_here());
    EQUAL(heapledger_fail_calls(within), 2);
    EQUAL(heapledger_fail_end(within), 0);
    EQUAL(heapledger_fail(7, 1, 0, NULL), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_fail(0, 1, 0, (const void *)16), HEAPLEDGER_E_UNKNOWN);
}

/* What is allocated from one moment to another. */
static void *elsewhere(void *data) {
    struct heapledger_region_sums figures;
    figures.size = sizeof figures;
    EQUAL(heapledger_region_figures(*(int *)data, &figures), HEAPLEDGER_E_NOT_SO);
    EQUAL(heapledger_region_end(*(int *)data), HEAPLEDGER_E_NOT_SO);
    free(kept(malloc(5000)));
    return NULL;
}

static void regions(void) {
    struct heapledger_region_sums all, own_only;
    pthread_t thread;
    int region = heapledger_region_begin(0), mine = heapledger_region_begin(1);
    void *block = kept(malloc(300));
    all.size = own_only.size = sizeof all;
    free(kept(malloc(1000)));
    block = kept(realloc(block, 400));
    CHECK(kept(malloc((size_t)-1 - 4096)) == NULL);
    EQUAL(heapledger_region_figures(mine, &own_only), 0);
    EQUAL(own_only.allocations, 3);
    EQUAL(own_only.bytes_allocated, 1700);
    EQUAL(own_only.frees, 2);
    EQUAL(own_only.bytes_freed, 1300);
    EQUAL(own_only.refused, 1);
    EQUAL(own_only.peak_bytes, 1300);
    CHECK(pthread_create(&thread, NULL, elsewhere, &mine) == 0);
    pthread_join(thread, NULL);
    EQUAL(heapledger_region_figures(region, &all), 0);
    CHECK(all.allocations >= 4 && all.peak_bytes >= 5400 && all.bytes_allocated >= 6700);
    free(block);
    EQUAL(heapledger_region_end(mine), 0);
    EQUAL(heapledger_region_end(region), 0);
    EQUAL(heapledger_region_figures(region, &all), HEAPLEDGER_E_UNKNOWN);
    all.size = 8;
    region = heapledger_region_begin(0);
    EQUAL(heapledger_region_figures(region, &all), HEAPLEDGER_E_TOO_SMALL);
    EQUAL(heapledger_region_end(region), 0);
}

/* 32 hooks, and no more; numbers that are over name nothing. */
static void many(void) {
    int hooks[33], index;
    for (index = 0; index < 32; index++) CHECK((hooks[index] = heapledger_on_alloc(counts, &calls_of_others)) > 0);
    EQUAL(heapledger_on_alloc(counts, &calls_of_others), HEAPLEDGER_E_NO_ROOM);
    for (index = 0; index < 32; index++) EQUAL(heapledger_hook_end(hooks[index]), 0);
    hooks[32] = heapledger_on_alloc(counts, &calls_of_others);
    CHECK(hooks[32] > 0 && hooks[32] != hooks[0]);
    EQUAL(heapledger_hook_end(hooks[0]), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_hook_end(hooks[32]), 0);
    EQUAL(heapledger_on_alloc(NULL, NULL), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_hook_end(0), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_hook_end(-1), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_hook_end(0x7FFFFFFF), HEAPLEDGER_E_UNKNOWN);
}

/* A forked child is not recorded; its hooks are called all the same. */
static void in_a_child(void) {
    int status;
    pid_t child;
    begin();
    child = fork();
    if (child == 0) {
        void *block;
        own = (unsigned)getpid();
        count = 0;
        block = kept(malloc(100));
        free(block);
        EQUAL(count, 2);
        EQUAL(seen[0].recorded, 0);
        CHECK(seen[0].block == block && seen[1].block == block);
        _exit(heapledger_hook_end(gave));
    }
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    end();
}

/* The history is full. */
static volatile int overflows;
static void overflowed(const struct heapledger_event *event, void *data) {
    (void)data;
    EQUAL(event->what, HEAPLEDGER_EVENT_OVERFLOW);
    CHECK(event->block == NULL);
    overflows++;
}

static void overflow(long entries) {
    int hook = heapledger_on_overflow(overflowed, NULL);
    long index;
    CHECK(hook > 0);
    for (index = 0; index < entries / 2; index++) free(kept(malloc(8)));
    EQUAL(overflows, 0);
    for (index = 0; index < 3 * entries; index++) free(kept(malloc(8)));
    CHECK(overflows >= 2 && overflows <= 4);
    EQUAL(heapledger_hook_end(hook), 0);
}

int main(int arguments, char **words) {
    own = (unsigned)getpid();
    CHECK(HEAPLEDGER_PRESENT());
    if (arguments > 1 && strcmp(words[1], "abort as there") == 0) {
        CHECK(heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 1, NULL) > 0);
        EQUAL(heapledger_abort_when_refused(1), 0);
        kept(malloc(0x08000000));
        return 1;
    }
    if (arguments > 1 && strcmp(words[1], "abort") == 0) {
        EQUAL(heapledger_abort_when_refused(1), 0);
        EQUAL(heapledger_abort_when_refused(0), 1);
        CHECK(kept(malloc((size_t)-1 - 4096)) == NULL);
        EQUAL(heapledger_abort_when_refused(1), 0);
        EQUAL(heapledger_abort_when_refused(1), 1);
        CHECK(heapledger_on_refused(notes, (void *)&count) > 0);
        kept(malloc((size_t)0x80000000u << 20));
        return 1;
    }
    if (arguments > 2 && strcmp(words[1], "overflow") == 0) {
        overflow(atol(words[2]));
    } else {
        if (arguments > 1) rounds = atoi(words[1]);
        each_call();
        failed_calls();
        who_asked();
        last_of_three();
        only_one();
        own_heap();
        within_a_hook();
        what_is_just_told();
        signals();
        two_threads();
        thresholds();
        when_memory_runs_low();
        large_requests();
        faults();
        regions();
        many();
        in_a_child();
    }
    puts("whole");
    return 0;
}
