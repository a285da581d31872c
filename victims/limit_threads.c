// flags: -pthread
// run: 1024
// stress: 512 1
// losses: lost_no_record lost_no_index lost_no_thread sites_full history_lost sums_lost unknown_frees stacks_broken
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Sets a limit on its own address space, ARG1 MiB (default 1024), and eats it up in four threads by every function: each gets
// nothing and ENOMEM at last, has what it had, can free all of it, and then has memory again. ARG2 times (default 3).
#include "later_blocks.h"
#include <sys/resource.h>

static pthread_barrier_t barrier;
static long limit_mib, rounds;

static void *take(int how, size_t n)
{
    void *p = NULL;
    int status;
    errno = 77;
    switch (how) {
    case 0: p = malloc(n); break;
    case 1: p = calloc(n, 1); break;
    case 2: p = realloc(NULL, n); break;
    case 3: p = aligned_alloc(64, n); break;
    default:
        status = posix_memalign(&p, 4096, n);
        CHECK(status == 0 || (status == ENOMEM && p == NULL && errno == 77));
        return p;
    }
    CHECK(p != NULL || errno == ENOMEM);
    return p;
}

static void *work(void *arg)
{
    intptr_t own = (intptr_t)arg;
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&barrier);
        // A list through the blocks themselves.
        void **list = NULL;
        size_t n = 64 * (size_t)(1000 << (own * 2)), had = 0;
        for (void **p; (p = take((int)(own + round) % 5, n)) != NULL; had++) {
            *p = list, list = p;
            ((char *)p)[n - 1] = (char)own;
        }
        CHECK(had < (size_t)limit_mib * 1048576 / n + 2);
        void **first = list;
        if (first != NULL)
            CHECK(realloc(first, (size_t)limit_mib << 21) == NULL && errno == ENOMEM && ((char *)first)[n - 1] == (char)own);
        while (list != NULL) {
            void **next = *list;
            CHECK(((char *)list)[n - 1] == (char)own);
            free(list);
            list = next;
        }
        pthread_barrier_wait(&barrier);
        void *again = malloc(100000);
        CHECK(again != NULL);
        free(again);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    limit_mib = arg_number(argc, argv, 1, 1024);
    rounds = arg_number(argc, argv, 2, 3);
    CHECK(pthread_barrier_init(&barrier, NULL, 4) == 0);
    // As a program does that knows what it needs: from here on, what it has counts, whoever mapped it.
    struct rlimit limit = {(rlim_t)limit_mib << 20, (rlim_t)limit_mib << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    pthread_t t[4];
    for (intptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    later_blocks();
    printf("had enough\n");
    return 0;
}
