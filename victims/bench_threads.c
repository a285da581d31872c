// flags: -O2 -fomit-frame-pointer -pthread
// run: 1 20000
// run: 2 20000
// run: 8 5000 1
// stress: 8 5000 1
// expect: live fn=work count=0
// expect-run 1: allocs fn=work kind=malloc count=20000
// expect-run 2: allocs fn=work kind=malloc count=40000
// expect-run 3: allocs fn=work kind=malloc count=40000
// What `cargo xtask bench` measures with several threads, which allocate and free across each other.
//
//     bench_threads THREADS OPERATIONS [SHARE] [time]
//
// Each thread does OPERATIONS, a malloc and a free each. Every SHARE-th (default 8) it allocates a message for the next
// thread and frees one from the thread before it; else it replaces a block of its own, chosen at random. Nobody waits:
// who finds no room for a message frees it.
//
// The program by itself should take as long with two threads as with one, or what it shows of a tracker would drown
// in the cost of cache lines that change hands. So messages are published in batches and fetched before they are freed,
// and they have a size of their own: they circle from cache to cache of malloc's, and no thread wants the lock of
// another one's arena. `time` prints what the loops took.
#include "victim.h"

enum { THREADS_MAX = 64, POOL = 4096, RING = 1024, BATCH = 8, AHEAD = 4, LINE = 64 };
enum { SMALLEST = 144, LARGEST = 640, MESSAGE = 96 };

// One thread writes `blocks` and `sent`, the next one `freed`: each a batch at a time, on cache lines of its own.
struct ring {
    _Alignas(LINE) size_t sent;
    _Alignas(LINE) size_t freed;
    _Alignas(LINE) void *blocks[RING];
};

static struct ring rings[THREADS_MAX];
static long threads, operations, share;
static pthread_barrier_t begin, end;

struct thread {
    struct ring *in, *out;
    size_t in_freed, in_sent;   // what this thread has freed of `in`, and what it knows to be there
    size_t out_sent, out_freed; // what it has sent, and what it knows to be freed of that
    uint32_t random;
    void *pool[POOL];
};

static void free_received(struct thread *self)
{
    if (self->in_freed == self->in_sent)
        self->in_sent = __atomic_load_n(&self->in->sent, __ATOMIC_ACQUIRE);
    if (self->in_freed == self->in_sent)
        return;
    free(self->in->blocks[self->in_freed++ % RING]);
    if (self->in_sent - self->in_freed > AHEAD) {
        char *next = self->in->blocks[(self->in_freed + AHEAD) % RING];
        __builtin_prefetch(next - 16, 1); // malloc's own words
        __builtin_prefetch(next, 1);
    }
    if (self->in_freed % BATCH == 0)
        __atomic_store_n(&self->in->freed, self->in_freed, __ATOMIC_RELEASE);
}

static void send(struct thread *self, void *block)
{
    if (self->out_sent - self->out_freed == RING)
        self->out_freed = __atomic_load_n(&self->out->freed, __ATOMIC_ACQUIRE);
    if (self->out_sent - self->out_freed == RING) {
        free(block);
        return;
    }
    self->out->blocks[self->out_sent++ % RING] = block;
    if (self->out_sent % BATCH == 0)
        __atomic_store_n(&self->out->sent, self->out_sent, __ATOMIC_RELEASE);
}

static void *block(size_t size)
{
    uint32_t *p = opaque(malloc(size));
    CHECK(p != NULL);
    *p = size;
    return p;
}

CALL_SITE void work(struct thread *self)
{
    long until_message = share;
    for (long i = 0; i < operations; i++) {
        if (--until_message == 0) {
            until_message = share;
            free_received(self);
            send(self, block(MESSAGE));
        } else {
            void **place = &self->pool[next_random(&self->random) % POOL];
            free(*place);
            *place = block(SMALLEST + next_random(&self->random) % (LARGEST - SMALLEST + 1));
        }
    }
}

// A few frames, as a real thread has them when it allocates.
__attribute__((noipa)) static void deeper(struct thread *self, int frames)
{
    if (frames == 0)
        work(self);
    else
        deeper(self, frames - 1);
    opaque(self);
}

static void *run(void *argument)
{
    long number = (long)(intptr_t)argument;
    struct thread *self = calloc(1, sizeof *self);
    CHECK(self != NULL);
    self->in = &rings[number];
    self->out = &rings[(number + 1) % threads];
    self->random = 1 + number;
    pthread_barrier_wait(&begin);
    deeper(self, 8);
    __atomic_store_n(&self->out->sent, self->out_sent, __ATOMIC_RELEASE);
    pthread_barrier_wait(&end);
    self->in_sent = self->in->sent;
    while (self->in_freed != self->in_sent)
        free_received(self);
    for (int i = 0; i < POOL; i++)
        free(self->pool[i]);
    free(self);
    return NULL;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
    int is_timed = argc > 1 && strcmp(argv[argc - 1], "time") == 0;
    argc -= is_timed;
    threads = arg_number(argc, argv, 1, 2);
    operations = arg_number(argc, argv, 2, 10000);
    share = arg_number(argc, argv, 3, 8);
    CHECK(threads >= 1 && threads <= THREADS_MAX && operations > 0 && share > 0);
    pthread_barrier_init(&begin, NULL, threads + 1);
    pthread_barrier_init(&end, NULL, threads + 1);
    pthread_t ids[THREADS_MAX];
    for (long number = 0; number < threads; number++)
        CHECK(pthread_create(&ids[number], NULL, run, (void *)(intptr_t)number) == 0);
    pthread_barrier_wait(&begin);
    uint64_t start_ns = cpu_ns();
    pthread_barrier_wait(&end);
    uint64_t took_ns = cpu_ns() - start_ns;
    for (long number = 0; number < threads; number++)
        CHECK(pthread_join(ids[number], NULL) == 0);
    if (is_timed)
        printf("operations=%ld cpu_ns=%llu\n", threads * operations, (unsigned long long)took_ns);
    else
        printf("%ld threads, %ld operations each, every %ld. a message\n", threads, operations, share);
    return 0;
}
