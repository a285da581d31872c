// flags: -std=c++17 -fno-builtin -faligned-new -pthread
// run:
// run: churn
// stress: churn 2000
// errors: alloc-dealloc-mismatch
// expect-run 1: live fn=one_byte kind=malloc count=10000 bytes=10000
// expect-run 1: live fn=zero_bytes kind=malloc count=10000 bytes=0
// expect-run 1: live fn=small kind=malloc count=40000 bytes=960000
// expect-run 1: live fn=cleared kind=calloc count=12000 bytes=2400000
// expect-run 1: live fn=posix_aligned kind=posix_memalign count=6000 bytes=3000000
// expect-run 1: live fn=c11_aligned kind=aligned_alloc count=6000 bytes=3072000
// expect-run 1: live fn=old_aligned kind=memalign count=6000 bytes=3600000
// expect-run 1: live fn=whole_pages kind=valloc count=400 bytes=1200000
// expect-run 1: live fn=more_pages kind=pvalloc count=400 bytes=1200000
// expect-run 1: live fn=from_nothing kind=realloc count=12000 bytes=1800000
// expect-run 1: live fn=grown kind=realloc count=5000 bytes=4500000
// expect-run 1: live fn=shrunk kind=realloc count=5000 bytes=1500000
// expect-run 1: live fn=items kind=reallocarray count=12000 bytes=2400000
// expect-run 1: live fn=more_items kind=reallocarray count=5000 bytes=4000000
// expect-run 1: live fn=by_new kind=new count=12000 bytes=1800000
// expect-run 1: live fn=by_new_array kind=new[] count=8000 bytes=2000000
// expect-run 1: live fn=by_new_nothrow kind=new(nothrow) count=8000 bytes=2080000
// expect-run 1: live fn=by_new_aligned kind=new(align) count=8000 bytes=2560000
// expect-run 1: live fn=pages kind=malloc count=1000 bytes=4096000
// expect-run 1: live fn=large kind=malloc count=40 bytes=4000000
// expect-run 1: live fn=huge kind=malloc count=5 bytes=20971520
// expect-run 1: live fn=in_thread kind=malloc count=12000 bytes=2040000
// expect-run 1: live fn=in_short_thread kind=malloc count=8000 bytes=1760000
// expect-run 1: live fn=handed_over kind=malloc count=12000 bytes=1560000
// expect-run 2: live fn=churn count=0
// Known numbers of blocks by every entry point, one size at each call site, for tests of sampling: an estimate can be held
// against the truth. `churn`: everything is freed again, and addresses are used over and over, ARG2 rounds (default 30000). `stand`: says that it is done
// and stays until its input ends.
#include "victim.h"
#include <new>

static const std::align_val_t A64{64};
enum { KEPT = 250000 };
static void *kept[KEPT];
static size_t kept_count;

static void keep(void *p)
{
    CHECK(p != NULL);
    kept[__atomic_fetch_add(&kept_count, 1, __ATOMIC_RELAXED)] = opaque(p);
}

#define SITE(name, count, bytes, block)              \
    CALL_SITE void name(void)                        \
    {                                                \
        for (int i = 0; i < count; i++) {            \
            const size_t size = opaque_size(bytes);  \
            keep(block);                             \
        }                                            \
    }

static void *posix_aligned_block(size_t size)
{
    void *p = NULL;
    CHECK(posix_memalign(&p, 64, size) == 0);
    return p;
}

// A few bytes above what it was, so that it moves now and then and stays in place at other times.
static void *resized(size_t from, size_t to)
{
    return realloc(opaque(malloc(from)), to);
}

SITE(one_byte, 10000, 1, malloc(size))
SITE(zero_bytes, 10000, 0, malloc(size))
SITE(small, 40000, 24, malloc(size))
SITE(cleared, 12000, 40, calloc(5, size))
SITE(posix_aligned, 6000, 500, posix_aligned_block(size))
SITE(c11_aligned, 6000, 512, aligned_alloc(64, size))
SITE(old_aligned, 6000, 600, memalign(128, size))
SITE(whole_pages, 400, 3000, valloc(size))
SITE(more_pages, 400, 3000, pvalloc(size))
SITE(from_nothing, 12000, 150, realloc(NULL, size))
SITE(grown, 5000, 900, resized(100, size))
SITE(shrunk, 5000, 300, resized(3000, size))
SITE(items, 12000, 20, reallocarray(NULL, 10, size))
SITE(more_items, 5000, 100, reallocarray(opaque(malloc(50)), 8, size))
SITE(by_new, 12000, 150, operator new(size))
SITE(by_new_array, 8000, 250, operator new[](size))
SITE(by_new_nothrow, 8000, 260, operator new(size, std::nothrow))
SITE(by_new_aligned, 8000, 320, operator new(size, A64))
SITE(pages, 1000, 4096, malloc(size))
SITE(large, 40, 100000, malloc(size))
SITE(huge, 5, 4 << 20, malloc(size))
SITE(in_thread, 3000, 170, malloc(size))
SITE(in_short_thread, 20, 220, malloc(size))

// Half of what one thread allocates is freed by another one.
static void *box[24000];
static int box_filled;

CALL_SITE void handed_over(void)
{
    for (int i = 0; i < 24000; i++) {
        box[i] = opaque(malloc(opaque_size(130)));
        __atomic_store_n(&box_filled, i + 1, __ATOMIC_RELEASE);
    }
}

CALL_SITE void take_half(void)
{
    for (int i = 0; i < 24000; i++) {
        while (__atomic_load_n(&box_filled, __ATOMIC_ACQUIRE) <= i)
            sched_yield();
        if (i % 2 == 0)
            free(box[i]);
    }
}

static void *thread_body(void *function)
{
    ((void (*)(void))function)();
    return NULL;
}

static void threads(int count, void (*const functions[])(void), int at_a_time)
{
    pthread_t running[16];
    for (int first = 0; first < count; first += at_a_time) {
        for (int i = 0; i < at_a_time; i++)
            CHECK(pthread_create(&running[i], NULL, thread_body, (void *)functions[i % 2]) == 0);
        for (int i = 0; i < at_a_time; i++)
            CHECK(pthread_join(running[i], NULL) == 0);
    }
}

// Everything is freed, by this or by the next thread: in the order of a ring, so that addresses come again at once and late.
enum { RING = 512 };

CALL_SITE void churn(long rounds)
{
    static void *ring[RING][8];
    uint32_t random = 1;
    for (long round = 0; round < rounds + RING; round++) {
        void **block = ring[round % RING];
        for (int i = 0; i < 8; i++) {
            if (i % 3 == 0)
                free(block[i]);
            else if (i % 3 == 1)
                operator delete(block[i]);
            else
                CHECK(block[i] == NULL || realloc(block[i], 0) == NULL);
            block[i] = NULL;
        }
        if (round >= rounds)
            continue;
        // In another order each time: what is freed by one function comes back from another.
        unsigned turn = next_random(&random) % 8;
        for (int step = 0; step < 6; step++) {
            unsigned at = (turn + step) % 8;
            switch (step) {
            case 0:
            case 1: block[at] = calloc(3, opaque_size(40)); break;
            case 2: block[at] = reallocarray(NULL, 3, opaque_size(100)); break;
            case 3: block[at] = posix_aligned_block(256); break;
            case 4: block[at] = malloc(opaque_size(48)); break;
            default:
                if (round % 3 == 0) {
                    // To and fro: 100, 600, 60 bytes.
                    void *p = realloc(NULL, opaque_size(100));
                    p = realloc(opaque(p), opaque_size(600));
                    block[at] = realloc(opaque(p), opaque_size(60));
                    p = realloc(NULL, opaque_size(100));
                    p = realloc(opaque(p), opaque_size(600));
                    free(realloc(opaque(p), opaque_size(60)));
                }
            }
            CHECK(step == 5 || block[at] != NULL);
        }
        for (int i = 0; i < 5; i++) {
            void *p = opaque(malloc(opaque_size(48)));
            CHECK(p != NULL);
            free(p);
        }
        if (round % 3 == 0) {
            void *p[2];
            p[0] = opaque(malloc(opaque_size(48)));
            p[1] = opaque(malloc(opaque_size(48)));
            free(p[0]);
            free(p[1]);
        }
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "churn") == 0) {
        churn(arg_number(argc, argv, 2, 30000));
        printf("churned\n");
        return 0;
    }
    void (*const sites[])(void) = {one_byte, zero_bytes, small, cleared, posix_aligned, c11_aligned, old_aligned,
        whole_pages, more_pages, from_nothing, grown, shrunk, items, more_items, by_new, by_new_array, by_new_nothrow,
        by_new_aligned, pages, large, huge};
    for (auto site : sites)
        site();
    void (*const alike[])(void) = {in_thread, in_thread}, (*const brief[])(void) = {in_short_thread, in_short_thread},
        (*const pair[])(void) = {handed_over, take_half};
    threads(4, alike, 4);
    threads(400, brief, 8);
    threads(2, pair, 2);
    printf("standing\n");
    fflush(stdout);
    if (strcmp(mode, "stand") == 0) {
        char byte;
        while (read(0, &byte, 1) > 0)
            continue;
    }
    return 0;
}
