// flags: -pthread
// run:
// expect: live fn=truth_block count=0
// expect: live fn=truth_moved count=0
// Threads allocate, move and free blocks without end, and write down before and after each call, in a file that is mapped,
// what they are about to do and what they have done: ARG1 is the file. Whoever kills them with SIGKILL holds the ledger
// against it. Without a file it ends after some rounds. Sizes are odd and above 1000, so nobody else's blocks look like
// these. The layout of the file is `Slot` in e2e/src/killer/truth.rs. With further files it forks a child for each, which does the same there;
// behind the slots each writes down its number.
#include "victim.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { THREADS = 3, SLOTS = 600, ROUNDS = 20000 };
enum { EMPTY, ALLOCATING, LIVE, FREEING, MOVING };
struct slot {
    uint64_t state, address, size, next_size;
};
static struct slot *truth;
static long rounds;

CALL_SITE void *truth_block(size_t n) { return opaque(malloc(n)); }
CALL_SITE void *truth_moved(void *p, size_t n) { return opaque(realloc(p, n)); }

// Each store is seen before the next, also by who looks after we were killed.
static void put(uint64_t *where, uint64_t what) { __atomic_store_n(where, what, __ATOMIC_SEQ_CST); }

static void work(struct slot *slot, uint32_t *seed)
{
    size_t n = 1001 + 2 * (next_random(seed) % 3000);
    if (slot->state == EMPTY) {
        put(&slot->size, n);
        put(&slot->state, ALLOCATING);
        void *p = truth_block(n);
        CHECK(p != NULL);
        put(&slot->address, (uintptr_t)p);
        put(&slot->state, LIVE);
    } else if (next_random(seed) % 4 == 0) {
        put(&slot->next_size, n);
        put(&slot->state, MOVING);
        void *p = truth_moved((void *)slot->address, n);
        CHECK(p != NULL);
        put(&slot->address, (uintptr_t)p);
        put(&slot->size, n);
        put(&slot->state, LIVE);
    } else {
        put(&slot->state, FREEING);
        free((void *)slot->address);
        put(&slot->state, EMPTY);
    }
}

static void *worker(void *arg)
{
    struct slot *own = truth + (long)arg * SLOTS;
    uint32_t seed = (long)arg * 7919 + 1;
    for (long i = 0; rounds == 0 || i < rounds; i++)
        work(&own[next_random(&seed) % SLOTS], &seed);
    for (long i = 0; i < SLOTS; i++)
        if (own[i].state == LIVE)
            free((void *)own[i].address);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t bytes = THREADS * SLOTS * sizeof *truth;
    int file = -1, flags = MAP_SHARED | MAP_ANONYMOUS;
    rounds = ROUNDS;
    if (argc > 1) {
        const char *own = argv[1];
        for (int i = 2; i < argc && own == argv[1]; i++)
            if (fork() == 0)
                own = argv[i];
        CHECK((file = open(own, O_RDWR)) >= 0);
        uint64_t pid = getpid();
        CHECK(pwrite(file, &pid, sizeof pid, bytes) == sizeof pid);
        flags = MAP_SHARED;
        rounds = 0;
    }
    truth = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(truth != MAP_FAILED);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    puts("done");
    return 0;
}
