// flags: -pthread
// stress: 2
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=cached count=0
// Caches of threads: filled to the brim and beyond in every size, in threads that end with them full; blocks freed by a key's
// destructor and a thread_local's after that; what comes out again is never handed out twice, is aligned and whole. A double use
// or a broken link would show in the bytes. ARG1 times (default 10).
#include "later_blocks.h"

enum { SIZES = 70, EACH = 12 };
static pthread_key_t key;

CALL_SITE void *cached(size_t n) { return opaque(malloc(n)); }

static void destructor(void *block)
{
    CHECK(((char *)block)[0] == 42);
    free(block);
    void *more = cached(40);
    CHECK(more != NULL);
    free(more);
}

static void *work(void *arg)
{
    unsigned char *blocks[SIZES * EACH];
    uint32_t seed = (uint32_t)(uintptr_t)arg;
    for (int round = 0; round < 6; round++) {
        for (int s = 0; s < SIZES; s++)
            for (int i = 0; i < EACH; i++) {
                size_t n = (size_t)s * 16 + 24;
                unsigned char *p = blocks[s * EACH + i] = cached(n);
                CHECK(p != NULL && ((uintptr_t)p & 15) == 0 && malloc_usable_size(p) >= n);
                memset(p, s ^ i ^ (int)(uintptr_t)arg, n);
            }
        // In an order of its own each time.
        for (int k = 0; k < SIZES * EACH; k++) {
            int at = (int)(next_random(&seed) % (SIZES * EACH));
            unsigned char *swap = blocks[at];
            blocks[at] = blocks[k], blocks[k] = swap;
        }
        for (int k = 0; k < SIZES * EACH; k++) {
            unsigned char *p = blocks[k];
            size_t n = malloc_usable_size(p);
            for (size_t b = 1; b + 16 < n; b++)
                CHECK(p[b] == p[0]);
            free(p);
        }
    }
    char *last = cached(100);
    last[0] = 42;
    CHECK(pthread_setspecific(key, last) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = arg_number(argc, argv, 1, 10);
    CHECK(pthread_key_create(&key, destructor) == 0);
    for (long round = 0; round < rounds; round++) {
        pthread_t t[4];
        for (intptr_t i = 0; i < 4; i++)
            CHECK(pthread_create(&t[i], NULL, work, (void *)(round * 4 + i + 1)) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(t[i], NULL) == 0);
    }
    later_blocks();
    printf("whole\n");
    return 0;
}
