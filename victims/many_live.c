// run:
// run: 1000000 1
// stress: 20000 4
// expect-run 1: live fn=keep_many kind=malloc count=200000
// expect-run 2: live fn=keep_many kind=malloc count=1000000
// ARG1 small blocks live at once (default 200000; the harness goes to 20000000), ARG2 threads (default 4) share the work; every
// third block is freed and made again, so that slots are reused. The printed live count is the expectation.
// flags: -pthread
#include "victim.h"

static long per_thread;

CALL_SITE void *keep_many(size_t n) { return opaque(malloc(n)); }

static void *work(void *arg)
{
    // The list of blocks is a mapping, not a block: with it the count is exact.
    size_t bytes = (per_thread + 1) * sizeof(void *);
    void **list = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(list != MAP_FAILED);
    uint32_t seed = (uint32_t)(uintptr_t)arg + 1;
    for (long i = 0; i < per_thread; i++) {
        list[i] = keep_many(8 + next_random(&seed) % 40);
        CHECK(list[i] != NULL);
        *(long *)list[i] = i;
    }
    for (long i = 0; i < per_thread; i += 3) {
        CHECK(*(long *)list[i] == i);
        free(list[i]);
        list[i] = NULL;
    }
    for (long i = 0; i < per_thread; i += 3)
        *(long *)(list[i] = keep_many(8 + next_random(&seed) % 40)) = i;
    for (long i = 0; i < per_thread; i++)
        CHECK(*(long *)list[i] == i);
    return NULL;
}

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 200000), threads = arg_number(argc, argv, 2, 4);
    CHECK(threads >= 1 && threads <= 64);
    per_thread = count / threads;
    pthread_t t[64];
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    printf("live %ld\n", per_thread * threads);
    return 0;
}
