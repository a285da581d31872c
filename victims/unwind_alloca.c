// flags: -fno-stack-clash-protection
// Functions with alloca, called from callers whose frames differ by as much as the alloca makes up for: everything inside is
// where it was, with equal return addresses. Only rbp, in a register or saved by an inner frame, tells who called, and what
// stood there the last time is still there.
//
// A mark is 10,000 + (kind of inner frames * 3 + kind of function) * 4 + caller.
#include "victim.h"
#include <alloca.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 4000, INNER = 4, FUNCTIONS = 3, CALLERS = 4, GAP = 4096, STEP = 64 };

// Where the inner frames are to begin, and whether they do so for all callers.
static char *goes_on;
static void *begins[INNER * FUNCTIONS];

CALL_SITE void innermost(unsigned mark)
{
    void **known = &begins[(mark - 10000) / CALLERS];
    CHECK(*known == NULL || *known == __builtin_dwarf_cfa());
    *known = __builtin_dwarf_cfa();
    MARK(mark);
}

// Do not touch rbp; save it and use it; save it lower; save it and point it at something.
CALL_SITE void inner_keeps(unsigned mark)
{
    innermost(mark);
    __asm__ volatile("# keeps");
}
CALL_SITE void inner_saves(unsigned mark)
{
    __asm__ volatile("xor %%ebp, %%ebp" : : : "rbp");
    innermost(mark);
    __asm__ volatile("" : : : "rbp");
}
CALL_SITE void inner_saves_all(unsigned mark)
{
    __asm__ volatile("mov $-1, %%rbp" : : : "rbx", "rbp", "r12", "r13", "r14", "r15");
    innermost(mark);
    __asm__ volatile("" : : : "rbp");
}
CALL_SITE __attribute__((optimize("no-omit-frame-pointer"))) void inner_framed(unsigned mark)
{
    innermost(mark);
    __asm__ volatile("# framed");
}
typedef void inner_fn(unsigned mark);
static inner_fn *const inner[INNER] = {inner_keeps, inner_saves, inner_saves_all, inner_framed};

// Frames of a size that makes up for where they begin.
CALL_SITE void by_alloca(unsigned mark, inner_fn *next)
{
    opaque(alloca((char *)__builtin_frame_address(0) - goes_on));
    next(mark);
    __asm__ volatile("# alloca");
}
CALL_SITE void by_array(unsigned mark, inner_fn *next)
{
    char room[(char *)__builtin_frame_address(0) - goes_on];
    opaque(room);
    next(mark);
    __asm__ volatile("# array");
}
// The same, and all other registers saved as well.
CALL_SITE void by_alloca_busy(unsigned mark, inner_fn *next)
{
    __asm__ volatile("" : : : "rbx", "r12", "r13", "r14", "r15");
    opaque(alloca((char *)__builtin_frame_address(0) - goes_on));
    next(mark);
    __asm__ volatile("# busy");
}
typedef void function_fn(unsigned mark, inner_fn *next);
static function_fn *const functions[FUNCTIONS] = {by_alloca, by_array, by_alloca_busy};

#define CALLER(number, size)                                                             \
    CALL_SITE void caller_##number(unsigned mark, function_fn *function, inner_fn *next) \
    {                                                                                    \
        opaque(alloca(size));                                                            \
        function(mark, next);                                                            \
        __asm__ volatile("# " #number);                                                  \
    }
CALLER(0, STEP)
CALLER(1, 2 * STEP)
CALLER(2, 3 * STEP)
CALLER(3, 2 * STEP)
typedef void caller_fn(unsigned mark, function_fn *function, inner_fn *next);
static caller_fn *const callers[CALLERS] = {caller_0, caller_1, caller_2, caller_3};

CALL_SITE void walk_by(unsigned way)
{
    callers[way % CALLERS](10000 + way, functions[way / CALLERS % FUNCTIONS], inner[way / CALLERS / FUNCTIONS]);
    __asm__ volatile("# walk");
}

int main(void)
{
    goes_on = (char *)((uintptr_t)__builtin_frame_address(0) & -16) - GAP;
    uint32_t random = 521288629;
    unsigned way = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t turn = next_random(&random);
        // Mostly only the caller changes.
        way = turn % 8 ? way - way % CALLERS + (turn >> 8) % CALLERS : (turn >> 8) % (CALLERS * FUNCTIONS * INNER);
        walk_by(way);
    }
    printf("marks %d\n", ROUNDS);
    return 0;
}
