// flags: -pthread
// stress: 1
// losses: lost_no_record lost_no_index lost_no_thread sites_full history_lost sums_lost unknown_frees stacks_broken
// expect: live fn=taken_block count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Threads use up an address space of 384 MiB, again and again: whoever is refused gets NULL and ENOMEM, frees all, and gets memory once
// more, ARG1 times (default 6). Aligned blocks and reallocations fail in the same way.
#include "later_blocks.h"
#include <sys/resource.h>

enum { THREADS = 8 };
static long rounds;
// The counting library counts what finds no room in the ledger: under it nothing is exhausted.
static long blocks_max = 200000;

CALL_SITE void *taken_block(size_t n) { return opaque(malloc(n)); }

static void *exhausts(void *arg)
{
    uint32_t seed = (uint32_t)(uintptr_t)arg + 1;
    for (int round = 0; round < rounds; round++) {
        void **first = NULL, **block;
        long count = 0;
        for (; count < blocks_max; count++) {
            errno = 0;
            block = (void **)taken_block(next_random(&seed) % 8 ? 1000 + next_random(&seed) % 4000 : 200000);
            if (block == NULL)
                break;
            *block = first;
            first = block;
        }
        CHECK(count == blocks_max || errno == ENOMEM);
        errno = 0;
        void *aligned = NULL;
        CHECK(posix_memalign(&aligned, 4096, 1l << 60) == ENOMEM && aligned == NULL);
        if (first != NULL)
            CHECK(realloc(first, opaque_size(1l << 60)) == NULL && errno == ENOMEM && *first != first);
        while ((block = first) != NULL) {
            first = (void **)*block;
            free(block);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = arg_number(argc, argv, 1, 6);
    struct rlimit limit = {384 << 20, 384 << 20};
    if (getenv("COUNTER_OUT"))
        blocks_max = 500;
    else
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    pthread_t threads[THREADS];
    int started = 0;
    // Where a stack for it finds no room any more a thread is refused, as ever.
    while (started < THREADS && pthread_create(&threads[started], NULL, exhausts, (void *)(uintptr_t)started) == 0)
        started++;
    CHECK(started > 0);
    for (int i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    later_blocks();
    printf("exhausted\n");
    return 0;
}
