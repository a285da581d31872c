// flags: -O2 -fno-optimize-sibling-calls
// Realigned stacks as gcc -O2 makes them: a frame that is found by a word at rbp - 8 and begins at the same address for
// callers that lie 16 to 112 bytes apart. rbp, saved rbp and the frame's own copy of the return address may all be equal;
// only that word tells where the true one stands, and where it stood the last time the old one is still there.
//
// A mark is 10,000 + (function * 2 + inner) * 4 + caller.
#include "victim.h"
#include <alloca.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 4000, FUNCTIONS = 4, INNER = 2, CALLERS = 4, ALIGNMENT = 256 };

static struct {
    void *begins;
    unsigned caller;
} last[FUNCTIONS * INNER];
static int misleading;

CALL_SITE void innermost(unsigned mark)
{
    unsigned group = (mark - 10000) / CALLERS, caller = (mark - 10000) % CALLERS;
    misleading += last[group].begins == __builtin_dwarf_cfa() && last[group].caller != caller;
    last[group].begins = __builtin_dwarf_cfa();
    last[group].caller = caller;
    MARK(mark);
    __asm__ volatile("# innermost");
}
typedef void inner_fn(unsigned mark);
CALL_SITE void inner_keeps(unsigned mark)
{
    innermost(mark);
    __asm__ volatile("# keeps");
}
CALL_SITE void inner_saves(unsigned mark)
{
    __asm__ volatile("" : : : "rbx", "rbp", "r12");
    innermost(mark);
    __asm__ volatile("# saves");
}
static inner_fn *const inner[INNER] = {inner_keeps, inner_saves};

// Aligned variables and alloca, with arguments on the stack.
CALL_SITE long with_arguments(unsigned mark, inner_fn *next, long c, long d, long e, long f, long g, long h)
{
    char room[ALIGNMENT] __attribute__((aligned(ALIGNMENT)));
    opaque(room);
    opaque(alloca(16 + c));
    next(mark);
    __asm__ volatile("# arguments");
    opaque(room);
    return c + d + e + f + g + h;
}
// The same without arguments on the stack.
CALL_SITE long with_alloca(unsigned mark, inner_fn *next, long c, long d, long e, long f, long g, long h)
{
    char room[ALIGNMENT] __attribute__((aligned(ALIGNMENT)));
    (void)g, (void)h;
    opaque(room);
    opaque(alloca(16 + c));
    next(mark);
    __asm__ volatile("# alloca");
    opaque(room);
    return c + d + e + f;
}
// Aligned only: found by rbp.
CALL_SITE long aligned_only(unsigned mark, inner_fn *next, long c, long d, long e, long f, long g, long h)
{
    char room[ALIGNMENT] __attribute__((aligned(ALIGNMENT)));
    (void)g, (void)h;
    opaque(room);
    next(mark);
    __asm__ volatile("# aligned");
    opaque(room);
    return c + d + e + f;
}
// As -mstackrealign makes it of every function.
CALL_SITE __attribute__((force_align_arg_pointer)) long mistrusts(unsigned mark, inner_fn *next, long c, long d, long e,
                                                                  long f, long g, long h)
{
    opaque(alloca(16 + c));
    next(mark);
    __asm__ volatile("# mistrusts");
    return c + d + e + f + g + h;
}
typedef long function_fn(unsigned mark, inner_fn *next, long c, long d, long e, long f, long g, long h);
static function_fn *const functions[FUNCTIONS] = {with_arguments, with_alloca, aligned_only, mistrusts};

#define CALLER(number, size)                                                             \
    CALL_SITE void caller_##number(unsigned mark, function_fn *function, inner_fn *next) \
    {                                                                                    \
        opaque(alloca(size));                                                            \
        function(mark, next, 0, 1, 2, 3, 4, 5);                                          \
        __asm__ volatile("# " #number);                                                  \
    }
CALLER(0, 16)
CALLER(1, 48)
CALLER(2, 80)
CALLER(3, 112)
typedef void caller_fn(unsigned mark, function_fn *function, inner_fn *next);
static caller_fn *const callers[CALLERS] = {caller_0, caller_1, caller_2, caller_3};

CALL_SITE void walk_by(unsigned way)
{
    callers[way % CALLERS](10000 + way, functions[way / CALLERS / INNER], inner[way / CALLERS % INNER]);
    __asm__ volatile("# walk");
}
// The caller's own place is moved too, so that what is equal for one caller is not for another.
CALL_SITE void walk_from(unsigned way, unsigned room)
{
    opaque(alloca(room));
    walk_by(way);
    __asm__ volatile("# from");
}

int main(void)
{
    uint32_t random = 1812433253;
    unsigned way = 0, room = 16;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t turn = next_random(&random);
        way = turn % 8 ? way - way % CALLERS + (turn >> 8) % CALLERS : (turn >> 8) % (CALLERS * FUNCTIONS * INNER);
        if (turn >> 16 & 1)
            room = 16 + (turn >> 20) % 16 * 16;
        walk_from(way, room);
    }
    CHECK(misleading > ROUNDS / 8);
    printf("marks %d\n", ROUNDS);
    return 0;
}
