// Stacks of which some words change and the others stay, in every combination. Ten levels of two functions each, whose
// frames are alike: bit N of a mark says which one was at level N. Then two functions that call each other, so that equal
// return addresses stand at many depths and all move by one frame.
#include "victim.h"

#define MARK(size) free(opaque(malloc(size)))
enum { LEVELS = 10, WALKS = 3000, TURNS = 1200, FIRST_BITS = 20000, FIRST_TURN = 30000 };

typedef void level_fn(unsigned bits);
static level_fn *const levels[LEVELS + 1][2];
static int marks;

CALL_SITE void innermost(unsigned bits) { MARK(FIRST_BITS + bits); }

#define ONE_OF_LEVEL(level, which, ...)                                       \
    CALL_SITE __VA_ARGS__ void level_##level##_##which(unsigned bits)         \
    {                                                                         \
        levels[level + 1][bits >> (level + 1) & 1](bits);                     \
        __asm__ volatile("# " #level #which);                                 \
    }
#define LEVEL(level, ...) ONE_OF_LEVEL(level, 0, __VA_ARGS__) ONE_OF_LEVEL(level, 1, __VA_ARGS__)
#define FRAMED __attribute__((optimize("no-omit-frame-pointer")))
LEVEL(0)
LEVEL(1)
LEVEL(2, FRAMED)
LEVEL(3)
LEVEL(4, FRAMED)
LEVEL(5, FRAMED)
LEVEL(6)
LEVEL(7)
LEVEL(8)
LEVEL(9, FRAMED)
static level_fn *const levels[LEVELS + 1][2] = {
    {level_0_0, level_0_1}, {level_1_0, level_1_1}, {level_2_0, level_2_1}, {level_3_0, level_3_1},
    {level_4_0, level_4_1}, {level_5_0, level_5_1}, {level_6_0, level_6_1}, {level_7_0, level_7_1},
    {level_8_0, level_8_1}, {level_9_0, level_9_1}, {innermost, innermost},
};

CALL_SITE void levels_below(unsigned bits)
{
    levels[0][bits & 1](bits);
    __asm__ volatile("# levels");
}

// The same frame for both; `mark` is 4 * turns + which one began, and 2 more for the ends that are further out.
CALL_SITE void pong(int turns, unsigned mark);
CALL_SITE void turned(unsigned mark)
{
    MARK(mark);
    marks++;
}
CALL_SITE void ping(int turns, unsigned mark)
{
    if (turns == 0)
        turned(mark);
    else
        pong(turns - 1, mark);
    __asm__ volatile("# ping");
}
CALL_SITE void pong(int turns, unsigned mark)
{
    if (turns == 0)
        turned(mark);
    else
        ping(turns - 1, mark);
    __asm__ volatile("# pong");
}
CALL_SITE void begin_here(int turns, unsigned mark, int by_pong)
{
    (by_pong ? pong : ping)(turns, mark);
    __asm__ volatile("# here");
}
CALL_SITE void begin_further_out(int turns, unsigned mark, int by_pong)
{
    begin_here(turns, mark, by_pong);
    __asm__ volatile("# further out");
}

int main(void)
{
    uint32_t random = 123456789;
    unsigned bits = 0;
    for (int i = 0; i < WALKS; i++, marks++) {
        // One bit, or any number of them.
        uint32_t way = next_random(&random);
        bits = way % 3 ? bits ^ 1u << (way >> 8) % LEVELS : (way >> 8) % (1u << LEVELS);
        levels_below(bits);
    }
    for (int i = 0; i < TURNS; i++) {
        uint32_t way = next_random(&random);
        int turns = (way >> 8) % 60, by_pong = way & 1, further = way >> 1 & 1;
        (further ? begin_further_out : begin_here)(turns, FIRST_TURN + 4 * turns + 2 * further + by_pong, by_pong);
    }
    printf("marks %d\n", marks);
    return 0;
}
