// flags: -pthread
// stress: 4 10000
// expect: live fn=race count=0
// Threads that malloc, realloc and free the same few sizes, so that an address which realloc gives up is another thread's at
// once. Contents tell whether two owners ever had one block. ARG1 threads (default 4), ARG2 rounds (default 40000).
#include "victim.h"

static long rounds;

__attribute__((noipa)) void *race(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg, seed = me * 2654435761u + 1;
    static const size_t sizes[] = {24, 40, 1000, 1100, 2000};
    uint32_t *p[8] = {0};
    size_t size[8] = {0};
    for (long i = 0; i < rounds; i++) {
        uint32_t r = next_random(&seed);
        int k = r % 8;
        size_t n = sizes[r / 8 % 5];
        if (p[k] != NULL) {
            CHECK(p[k][0] == (me << 8 | k));
            CHECK(p[k][size[k] / 4 - 1] == (me << 8 | k));
        }
        if (p[k] == NULL)
            p[k] = malloc(n);
        else if (r / 64 % 4 == 0) {
            free(p[k]);
            p[k] = NULL;
            continue;
        } else {
            p[k] = realloc(p[k], n);
            CHECK(p[k][0] == (me << 8 | k));
        }
        CHECK(p[k] != NULL);
        size[k] = n;
        p[k][0] = p[k][n / 4 - 1] = me << 8 | k;
    }
    for (int k = 0; k < 8; k++)
        free(p[k]);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = arg_number(argc, argv, 1, 4);
    rounds = arg_number(argc, argv, 2, 40000);
    // One arena for all threads: otherwise each would reuse its own addresses only.
    mallopt(M_ARENA_MAX, 1);
    CHECK(threads >= 1 && threads <= 64);
    pthread_t t[64];
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&t[i], NULL, race, (void *)(i + 1)) == 0);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    printf("done\n");
    return 0;
}
