// flags: -O2 -pthread
// run: 40000 10000 2
// run: => 2
// stress: 40000 10000 2
// expect-run 1: live fn=end_of_path kind=malloc count=40000
// What `cargo xtask scale` reads the ledger of: a program that holds very many blocks.
//
//     bench_scale LIVE FREED THREADS
//
// LIVE blocks are alive at the end, FREED others were allocated in between and freed; THREADS share the work. Blocks
// come from some 30,000 distinct stacks, five to seventeen frames deep, a few of which hold most, as in real programs.
// Most sizes belong to a stack, some hang on the data. Nothing is freed at the end: that is what the ledger is for.
#include "victim.h"
#include <pthread.h>

enum { PATHS = 30000, FUNCTIONS = 16, DEPTH_MIN = 2, DEPTH_MAX = 14, BURST = 64, RING = 4096, THREADS_MAX = 64 };

struct work {
    pthread_t thread;
    long live, freed;           // what is left to do
    uint32_t random;
    uint32_t path;              // what the path is made from
    unsigned burst;
    unsigned next;
    void *ring[RING];           // blocks that will be freed
};

static void *block(struct work *work)
{
    uint32_t random = next_random(&work->random);
    size_t size;
    switch (work->path % 5) {
    case 0: size = 16 + random % 400; break;
    case 1: size = 1 + random % 60; break;
    default: size = 8 * (1 + work->path % 20);
    }
    char *p = opaque(malloc(size));
    CHECK(p != NULL);
    *p = 1;
    return p;
}

CALL_SITE void end_of_path(struct work *work)
{
    for (unsigned i = 0; i < work->burst && work->live + work->freed > 0; i++) {
        // In proportion, so that freed ones lie everywhere between the others.
        if (next_random(&work->random) % (work->live + work->freed) < (unsigned long)work->freed) {
            work->freed--;
            unsigned place = work->next++ % RING;
            free(work->ring[place]);
            work->ring[place] = block(work);
        } else {
            work->live--;
            opaque(block(work));
        }
    }
}

typedef void function_t(struct work *work, uint32_t way, unsigned depth);
static function_t *const functions[FUNCTIONS];

// Four bits of `way` choose each function. The empty asm behind the call keeps it from being in tail position.
#define FUNCTION(n)                                                                          \
    __attribute__((noipa)) static void function_##n(struct work *work, uint32_t way, unsigned depth) \
    {                                                                                        \
        if (depth == 0)                                                                      \
            end_of_path(work);                                                               \
        else                                                                                 \
            functions[way % FUNCTIONS](work, way / FUNCTIONS * 2654435761u + n, depth - 1);   \
        opaque(work);                                                                        \
    }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)
FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11) FUNCTION(12) FUNCTION(13) FUNCTION(14) FUNCTION(15)
#define NAME(n) function_##n,
static function_t *const functions[FUNCTIONS] = {
    NAME(0) NAME(1) NAME(2) NAME(3) NAME(4) NAME(5) NAME(6) NAME(7)
    NAME(8) NAME(9) NAME(10) NAME(11) NAME(12) NAME(13) NAME(14) NAME(15)
};

static void *run(void *argument)
{
    struct work *work = argument;
    while (work->live + work->freed > 0) {
        // The smallest of three: low numbers are taken most often.
        uint32_t path = next_random(&work->random) % PATHS;
        for (int i = 0; i < 2; i++) {
            uint32_t other = next_random(&work->random) % PATHS;
            path = other < path ? other : path;
        }
        work->path = path;
        work->burst = 1 + next_random(&work->random) % BURST;
        uint32_t way = path * 2246822519u;
        functions[way % FUNCTIONS](work, way, DEPTH_MIN + (way >> 16) % (DEPTH_MAX - DEPTH_MIN));
    }
    for (unsigned place = 0; place < RING; place++)
        free(work->ring[place]);
    return NULL;
}

int main(int argc, char **argv)
{
    long live = argc == 4 ? atol(argv[1]) : 0, freed = argc == 4 ? atol(argv[2]) : 0;
    long threads = argc == 4 ? atol(argv[3]) : 0;
    if (live < 1 || freed < 0 || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: bench_scale LIVE FREED THREADS\n");
        return 2;
    }
    static struct work all[THREADS_MAX];
    for (long i = 0; i < threads; i++) {
        struct work *work = &all[i];
        work->live = live / threads + (i < live % threads);
        work->freed = freed / threads + (i < freed % threads);
        work->random = 1000 + (uint32_t)i;
        CHECK(pthread_create(&work->thread, NULL, run, work) == 0);
    }
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(all[i].thread, NULL) == 0);
    return 0;
}
