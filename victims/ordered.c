// flags: -pthread
// run: held 4 4000
// run: loose 4 4000
// run: idle 3 2000
// stress: held 4 1000
// stress: loose 4 1000
// stress: idle 3 500
// expect: live fn=give count=8
// Threads that pass blocks to each other through a few places, where anyone mallocs, reallocs or frees, and log what they did
// and in which order: `held` with a lock held over call and log, so that the log is the one true order; `loose` with the lock
// held over the log alone, after a block is given and before it is taken back; `idle` as `held`, but one thread sleeps for
// more than a second in between and then goes on. ARG1 is that way, ARG2 threads, ARG3 rounds of each, ARG4 a file for the log,
// with ARG5 `stop` the program stops itself half way. The eight blocks of the end stay.
#include "victim.h"

enum { PLACES = 8, LOG = 1 << 21 };
enum { GIVEN = 1, TAKEN, MOVED };

struct event {
    uint64_t begin_ns, end_ns, address, to;
    uint32_t size, tid, what, padding;
};
static struct event *events;
static long logged;
static void *places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static long rounds;
static int held, idle, stops;

// The kernel's coarse clock: what another thread did a step of it earlier comes first, however long a step takes here.
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// With `held` the lock is the caller's already.
static struct event *note(uint32_t what, uint64_t begin_ns, uintptr_t p, void *to, size_t size)
{
    if (!held)
        pthread_mutex_lock(&lock);
    CHECK(logged < LOG);
    struct event *event = &events[logged++];
    *event = (struct event){begin_ns, now_ns(), p, (uintptr_t)to, (uint32_t)size, (uint32_t)gettid(), what, 0};
    if (!held)
        pthread_mutex_unlock(&lock);
    return event;
}

CALL_SITE void *give(size_t size)
{
    uint64_t begin_ns = now_ns();
    void *p = opaque(malloc(size));
    CHECK(p != NULL);
    note(GIVEN, begin_ns, (uintptr_t)p, NULL, size);
    return p;
}
CALL_SITE void take(void *p)
{
    struct event *event = note(TAKEN, now_ns(), (uintptr_t)p, NULL, 0);
    free(p);
    event->end_ns = now_ns();
}
CALL_SITE void *move(void *p, size_t size)
{
    uint64_t begin_ns = now_ns();
    uintptr_t before = (uintptr_t)p;
    void *to = opaque(realloc(p, size));
    CHECK(to != NULL);
    note(MOVED, begin_ns, before, to, size);
    return to;
}

static void *work(void *arg)
{
    uint32_t seed = (uint32_t)(uintptr_t)arg * 2654435761u + 1;
    static const size_t sizes[] = {24, 24, 40, 1000, 1100, 3000};
    for (long i = 0; i < rounds; i++) {
        uint32_t r = next_random(&seed);
        void **place = &places[r % PLACES];
        size_t size = sizes[r / PLACES % 6];
        if (idle && arg == (void *)1 && i == rounds / 2)
            usleep(1200000);
        if (stops && i == rounds / 2) {
            if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
                raise(SIGSTOP);
            pthread_barrier_wait(&barrier);
        }
        if (held)
            pthread_mutex_lock(&lock);
        void *p = __atomic_exchange_n(place, NULL, __ATOMIC_ACQ_REL);
        if (p == NULL)
            p = give(size);
        else if (r / 64 % 4 == 0)
            p = move(p, size);
        else if (r / 64 % 4 < 3) {
            take(p);
            p = NULL;
        }
        if (p != NULL)
            p = __atomic_exchange_n(place, p, __ATOMIC_ACQ_REL);
        if (p != NULL)
            take(p);
        if (held)
            pthread_mutex_unlock(&lock);
        // Who sleeps is to find a world that went on.
        if (idle && arg != (void *)1)
            usleep(1200000 / (useconds_t)rounds);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc > 3);
    held = strcmp(argv[1], "loose") != 0;
    idle = strcmp(argv[1], "idle") == 0;
    stops = argc > 5 && strcmp(argv[5], "stop") == 0;
    long threads = arg_number(argc, argv, 2, 4);
    rounds = arg_number(argc, argv, 3, 4000);
    CHECK(threads >= 1 && threads <= 256);
    // One arena for all threads, so that memory goes from one to the other, in parts, too.
    mallopt(M_ARENA_MAX, 1);
    events = mmap(NULL, LOG * sizeof *events, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(events != MAP_FAILED);
    CHECK(pthread_barrier_init(&barrier, NULL, (unsigned)threads) == 0);
    pthread_t t[256];
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)(i + 1)) == 0);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    for (int place = 0; place < PLACES; place++) {
        if (places[place] != NULL)
            take(places[place]);
        places[place] = give(100);
    }
    if (argc > 4) {
        int file = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0666);
        CHECK(file >= 0);
        size_t bytes = (size_t)logged * sizeof *events;
        CHECK(write(file, events, bytes) == (ssize_t)bytes && close(file) == 0);
    }
    printf("done\n");
    return 0;
}
