// flags: -pthread
// run:
// run: 16 5000
// stress: 8 2000
// stress: 16 5000
// expect: live fn=storm count=0
// ARG1 threads (default 8) malloc and hand each block to another thread, which frees it: ARG2 blocks each (default 20000).
#include "victim.h"

enum { SLOTS = 256, MAX_THREADS = 64 };
static void *mailbox[MAX_THREADS][SLOTS];
static long threads, rounds, freed;
static pthread_barrier_t barrier;

__attribute__((noipa)) void *storm(void *arg)
{
    long me = (long)arg, mine = 0;
    uint32_t seed = me * 7919 + 1;
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < rounds; i++) {
        size_t n = 16 + next_random(&seed) % 500;
        unsigned char *p = malloc(n);
        memset(p, (int)(n & 0xff), n);
        memcpy(p, &n, sizeof n);
        long to = (me + 1 + next_random(&seed) % (threads - 1)) % threads;
        // Whatever lay in the slot came from any thread and is ours to free now.
        unsigned char *old = __atomic_exchange_n(&mailbox[to][next_random(&seed) % SLOTS], p, __ATOMIC_ACQ_REL);
        if (old) {
            memcpy(&n, old, sizeof n);
            CHECK(n <= 16 + sizeof n ? 1 : old[n - 1] == (n & 0xff));
            free(old);
            mine++;
        }
    }
    __atomic_add_fetch(&freed, mine, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv)
{
    threads = arg_number(argc, argv, 1, 8);
    rounds = arg_number(argc, argv, 2, 20000);
    CHECK(threads >= 2 && threads <= MAX_THREADS);
    pthread_t t[MAX_THREADS];
    pthread_barrier_init(&barrier, NULL, threads);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&t[i], NULL, storm, (void *)i) == 0);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    for (long i = 0; i < threads; i++)
        for (long s = 0; s < SLOTS; s++)
            if (mailbox[i][s]) {
                free(mailbox[i][s]);
                freed++;
            }
    CHECK(freed == threads * rounds);
    printf("freed %ld\n", freed);
    return 0;
}
