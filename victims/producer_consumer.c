// flags: -pthread
// stress: 20000
// expect: live fn=produce count=0
// One thread only mallocs, the other only frees. ARG1 blocks (default 1000000; the harness uses 100000000: the table must
// stay at the live peak, which the ring bounds to 1024 blocks).
#include "victim.h"

enum { RING = 1024 };
static void *ring[RING];
static long head __attribute__((aligned(64))), tail __attribute__((aligned(64)));
static long count, holds;

__attribute__((noipa)) void *produce(void *arg)
{
    uint32_t seed = 1;
    for (long i = 0; i < count; i++) {
        if (holds && i % (count / holds) == count / holds - 1)
            hold();
        long *p = malloc(sizeof(long) + next_random(&seed) % 120);
        *p = i;
        while (i - __atomic_load_n(&tail, __ATOMIC_ACQUIRE) >= RING)
            sched_yield();
        ring[i % RING] = p;
        __atomic_store_n(&head, i + 1, __ATOMIC_RELEASE);
    }
    return arg;
}
static void *consume(void *arg)
{
    for (long i = 0; i < count; i++) {
        while (__atomic_load_n(&head, __ATOMIC_ACQUIRE) <= i)
            sched_yield();
        long *p = ring[i % RING];
        CHECK(*p == i);
        __atomic_store_n(&tail, i + 1, __ATOMIC_RELEASE);
        free(p);
    }
    return arg;
}

int main(int argc, char **argv)
{
    count = arg_number(argc, argv, 1, 1000000);
    holds = arg_number(argc, argv, 2, 0);
    pthread_t a, b;
    CHECK(pthread_create(&a, NULL, produce, NULL) == 0);
    CHECK(pthread_create(&b, NULL, consume, NULL) == 0);
    CHECK(pthread_join(a, NULL) == 0 && pthread_join(b, NULL) == 0);
    printf("passed on %ld blocks\n", count);
    return 0;
}
