// flags: -O2 -fomit-frame-pointer
// run: same 20 3000
// run: burst 20 3000
// run: leaf 10 3000
// run: random 40 3000
// expect: allocs fn=leaf kind=malloc count=3000
// expect: live fn=main kind=malloc count>=4096
// What `cargo xtask bench` measures: malloc and free at the ends of 500 call paths through 300 functions.
// `e2e/tests/instructions.rs` counts from one call of `segment` to the next.
//
//     bench_paths MODE DEPTH PAIRS [walk] [time] [edge] [resize]
//
// MODE says how the stack changes from one pair of malloc and free to the next:
//   same    not at all
//   burst   a walk over the tree of all paths, with 4 pairs at each leaf
//   leaf    the same walk with 1 pair at each leaf: about half of the frames are new
//   random  each pair at the end of a path chosen at random
// A path has DEPTH functions (at most 40); `main` and what is around it come in addition. `walk` makes the same calls
// without malloc and free. `edge` puts the stack pointer of the innermost call to the first address of a page (with `same`), below
// which nothing was touched before. `resize` has a realloc in place of each pair. `time` prints what the loop took, by itself: without start and end of the process.
#include "victim.h"
#include <alloca.h>

enum { PATHS = 500, FUNCTIONS = 300, DEPTH_MAX = 40, LEAF = FUNCTIONS, POOL = 4096 };
// In steps, as in real programs, where few sizes belong to a call site: some 250,000 pairs of size and stack, which
// sizes to the byte would make, are more than heaptrack's interpreter survives (1.4.0).
enum { SMALLEST = 16, STEP = 16, SIZES = 32 };
// Pairs from one call of `segment` to the next: a whole walk over the tree with four pairs at each leaf.
enum { SEGMENT = 4 * PATHS };

// The function at each level of each path; behind the last one LEAF.
static uint16_t paths[PATHS][DEPTH_MAX + 1];
// How many functions from the top a path has in common with the one before it.
static uint8_t shared[PATHS];

static struct {
    unsigned path, end;      // the path that is walked, and where the walk stops
    long pairs_left;
    unsigned pairs_at_leaf;
    int allocates, resizes;
    uint32_t random;
} walk;

static void *pool[POOL];

// The stack pointer of the last call of malloc.
static uintptr_t innermost;

static void *block(void)
{
    size_t size = SMALLEST + next_random(&walk.random) % SIZES * STEP;
    __asm__ volatile("mov %%rsp, %0" : "=r"(innermost));
    uint32_t *p = opaque(malloc(size));
    CHECK(p != NULL);
    *p = walk.random;
    return p;
}

static void *resized(void *old)
{
    size_t size = SMALLEST + next_random(&walk.random) % SIZES * STEP;
    uint32_t *p = opaque(realloc(old, size));
    CHECK(p != NULL);
    *p = walk.random;
    return p;
}

// Another 2,000 pairs are to come.
CALL_SITE void segment(void)
{
}

// The end of each path: some blocks are replaced, and the walk goes on to the next path.
CALL_SITE void leaf(unsigned level)
{
    (void)level;
    for (unsigned i = 0; i < walk.pairs_at_leaf && walk.pairs_left > 0; i++, walk.pairs_left--) {
        if (walk.pairs_left % SEGMENT == 0)
            segment();
        unsigned slot = next_random(&walk.random) % POOL;
        if (walk.resizes) {
            pool[slot] = resized(pool[slot]);
        } else if (walk.allocates) {
            free(pool[slot]);
            pool[slot] = block();
        }
    }
    walk.path++;
}

typedef void function_t(unsigned level);
static function_t *const functions[FUNCTIONS + 1];

// Calls what comes below a frame, for each further path that has this frame in common. The empty asm uses the frame's
// memory after the call, so that no call is in tail position.
static inline __attribute__((always_inline)) void below(unsigned level, char *frame)
{
    frame[0] = (char)level;
    opaque(frame);
    do
        functions[paths[walk.path][level]](level + 1);
    while (walk.path < walk.end && shared[walk.path] >= level && walk.pairs_left > 0);
    opaque(frame);
}

// 300 functions, frame_1000 to frame_1299: frames of 64 bytes to 1 KiB in steps of 16, each 20th with alloca.
#define FRAME(n)                                                   \
    __attribute__((noipa)) static void frame_##n(unsigned level)   \
    {                                                              \
        if (n % 20 == 13) {                                        \
            below(level, alloca(64 + walk.path % 8 * 32));         \
        } else {                                                   \
            char frame[64 + n * 37 % 61 * 16];                     \
            below(level, frame);                                   \
        }                                                          \
    }
#define NAME(n) frame_##n,
#define TEN(f, n) f(n##0) f(n##1) f(n##2) f(n##3) f(n##4) f(n##5) f(n##6) f(n##7) f(n##8) f(n##9)
#define HUNDRED(f, n)                                                                           \
    TEN(f, n##0) TEN(f, n##1) TEN(f, n##2) TEN(f, n##3) TEN(f, n##4)                            \
    TEN(f, n##5) TEN(f, n##6) TEN(f, n##7) TEN(f, n##8) TEN(f, n##9)
HUNDRED(FRAME, 10) HUNDRED(FRAME, 11) HUNDRED(FRAME, 12)
static function_t *const functions[FUNCTIONS + 1] = {HUNDRED(NAME, 10) HUNDRED(NAME, 11) HUNDRED(NAME, 12) leaf};

// Paths in the order of a walk over their tree. Where a path leaves the one before it is spread evenly over the depth.
static void make_paths(unsigned depth)
{
    uint32_t random = 12345;
    for (unsigned path = 0; path < PATHS; path++) {
        unsigned common = path == 0 ? 0 : 1 + next_random(&random) % (depth - 1);
        shared[path] = common;
        for (unsigned level = 0; level < depth; level++) {
            uint16_t before = path == 0 ? FUNCTIONS : paths[path - 1][level];
            uint16_t function = level < common ? before : next_random(&random) % FUNCTIONS;
            paths[path][level] = level == common && function == before ? (function + 1) % FUNCTIONS : function;
        }
        paths[path][depth] = LEAF;
    }
}

static void walk_paths(unsigned first, unsigned end)
{
    walk.path = first;
    walk.end = end;
    while (walk.path < walk.end && walk.pairs_left > 0)
        functions[paths[walk.path][0]](1);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "burst";
    long depth = arg_number(argc, argv, 2, 20), pairs = arg_number(argc, argv, 3, 3000);
    CHECK(depth >= 2 && depth <= DEPTH_MAX && pairs > 0);
    int is_walk = 0, is_timed = 0, is_edge = 0;
    for (int i = 4; i < argc; i++) {
        is_walk |= strcmp(argv[i], "walk") == 0;
        is_timed |= strcmp(argv[i], "time") == 0;
        is_edge |= strcmp(argv[i], "edge") == 0;
        walk.resizes |= strcmp(argv[i], "resize") == 0;
    }
    make_paths(depth);
    walk.random = 1;
    walk.allocates = !is_walk;
    for (int i = 0; i < POOL; i++)
        pool[i] = block();
    if (is_edge) {
        walk.pairs_left = walk.pairs_at_leaf = 1;
        walk_paths(0, 1);
        opaque(alloca((innermost - 16) % 4096 + 1)); // by so much and 15 more
    }
    walk.pairs_left = pairs;

    uint64_t start_ns = cpu_ns();
    if (strcmp(mode, "same") == 0) {
        walk.pairs_at_leaf = UINT32_MAX;
        walk_paths(0, 1);
    } else if (strcmp(mode, "random") == 0) {
        walk.pairs_at_leaf = 1;
        while (walk.pairs_left > 0) {
            unsigned path = next_random(&walk.random) % PATHS;
            walk_paths(path, path + 1);
        }
    } else {
        CHECK(strcmp(mode, "burst") == 0 || strcmp(mode, "leaf") == 0);
        walk.pairs_at_leaf = mode[0] == 'b' ? 4 : 1;
        while (walk.pairs_left > 0)
            walk_paths(0, PATHS);
    }
    uint64_t took_ns = cpu_ns() - start_ns;

    CHECK(walk.pairs_left == 0);
    CHECK(!is_edge || innermost % 4096 == 0);
    if (is_timed)
        printf("operations=%ld cpu_ns=%llu\n", pairs, (unsigned long long)took_ns);
    else
        printf("%s, depth %ld: %ld pairs\n", mode, depth, pairs);
    return 0;
}
