// A storm: random calls through frames of every kind. The size of a block says by which calls it came, so its stack can be
// checked without asking any unwinder. One digit (base STORM_BASE, a leading 1 in front) for each step, outermost first:
// twice the kind of the step, plus which of its two calls it was. `Storm` in e2e/src/unwinding.rs reads it.
#ifndef UNWIND_STORM_H
#define UNWIND_STORM_H
#include "victim.h"
#include <alloca.h>

enum { STORM_KINDS = 10, STORM_BASE = 2 * STORM_KINDS, STORM_SHALLOWEST = 3, STORM_DEEPEST = 5 };

struct storm {
    uint32_t random;
    int marks;   // blocks allocated so far
    int wanted;  // and how many there are to be
    int turns[STORM_DEEPEST + 1];
    void *own;   // what the victim keeps beside
};
typedef void storm_step(struct storm *s, unsigned path, int depth);
extern storm_step *const storm_steps[STORM_KINDS];

// Freed at once: the history has both stacks, and large sizes cost nothing.
#define MARK(size) free(opaque(malloc(size)))

// What a victim does when a step begins, around each of its turns, for an allocation, and after one. The last may leave
// for good.
#ifndef STORM_ARRIVE
#define STORM_ARRIVE(s, size, depth)
#endif
#ifndef STORM_TRY
#define STORM_TRY
#define STORM_CATCH(s, depth)
#endif
#ifndef STORM_MARK
#define STORM_MARK(s, size) MARK(size)
#endif
#ifndef STORM_LEAVE
#define STORM_LEAVE(s, depth)
#endif
#ifndef STORM_KINDS_USED
#define STORM_KINDS_USED STORM_KINDS
#endif

// The comments keep the compiler from making one call of two.
#define STORM_BODY(kind)                                                                               \
    s->turns[depth] = 1 + next_random(&s->random) % 3;                                                 \
    STORM_ARRIVE(s, path *STORM_BASE + 2 * kind, depth);                                               \
    while (s->turns[depth]-- > 0 && s->marks < s->wanted) STORM_TRY {                                  \
        uint32_t way = next_random(&s->random);                                                        \
        if (depth >= STORM_SHALLOWEST && (depth == STORM_DEEPEST || way % 4 == 0)) {                   \
            s->marks++;                                                                                \
            if (way & 16) {                                                                            \
                STORM_MARK(s, path * STORM_BASE + 2 * kind);                                           \
                __asm__ volatile("# first mark");                                                      \
            } else {                                                                                   \
                STORM_MARK(s, path * STORM_BASE + 2 * kind + 1);                                       \
                __asm__ volatile("# second mark");                                                     \
            }                                                                                          \
            STORM_LEAVE(s, depth);                                                                     \
        } else if (way & 32) {                                                                         \
            storm_steps[(way >> 8) % STORM_KINDS_USED](s, path * STORM_BASE + 2 * kind, depth + 1);    \
            __asm__ volatile("# first call");                                                          \
        } else {                                                                                       \
            storm_steps[(way >> 8) % STORM_KINDS_USED](s, path * STORM_BASE + 2 * kind + 1, depth + 1);\
            __asm__ volatile("# second call");                                                         \
        }                                                                                              \
    } STORM_CATCH(s, depth)

// Two that nothing but their addresses tells apart, and two wider ones.
CALL_SITE void small_one(struct storm *s, unsigned path, int depth) { STORM_BODY(0); }
CALL_SITE void small_two(struct storm *s, unsigned path, int depth) { STORM_BODY(1); }
CALL_SITE void wide_one(struct storm *s, unsigned path, int depth)
{
    char room[64];
    opaque(room);
    STORM_BODY(2);
    opaque(room);
}
CALL_SITE void wide_two(struct storm *s, unsigned path, int depth)
{
    char room[64];
    opaque(room);
    STORM_BODY(3);
    opaque(room);
}
// Saves every register that a function must preserve, rbp as any other.
CALL_SITE void busy(struct storm *s, unsigned path, int depth)
{
    __asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15");
    STORM_BODY(4);
}
CALL_SITE __attribute__((optimize("no-omit-frame-pointer"))) void framed(struct storm *s, unsigned path, int depth)
{
    STORM_BODY(5);
}
// Of another size each time, which is nowhere in its mark: stacks of equal return addresses lie differently.
CALL_SITE void of_any_size(struct storm *s, unsigned path, int depth)
{
    opaque(alloca(16 + next_random(&s->random) % 12 * 16));
    STORM_BODY(6);
}
// A realigned stack; with alloca, one whose frame is found by a word in memory.
CALL_SITE void realigned(struct storm *s, unsigned path, int depth)
{
    char room[128] __attribute__((aligned(128)));
    opaque(room);
    opaque(alloca(16 + next_random(&s->random) % 4 * 16));
    STORM_BODY(7);
    opaque(room);
}
// 16 KiB: frames whose addresses are equal but for high bits.
CALL_SITE void huge(struct storm *s, unsigned path, int depth)
{
    char room[16384];
    opaque(room);
    STORM_BODY(8);
    opaque(room);
}
// The same return address four times.
CALL_SITE void looped(struct storm *s, unsigned path, int round_and_depth)
{
    if (round_and_depth < 300) {
        looped(s, path, round_and_depth + 100);
        __asm__ volatile("# recursion");
        return;
    }
    const int depth = round_and_depth - 300;
    STORM_BODY(9);
}

storm_step *const storm_steps[STORM_KINDS] = {small_one, small_two,   wide_one,  wide_two, busy,
                                              framed,    of_any_size, realigned, huge,     looped};

// Steps until there are WANTED marks.
CALL_SITE void storm(struct storm *s, int wanted)
{
    for (s->wanted = wanted; s->marks < s->wanted;) {
        uint32_t first = next_random(&s->random);
        storm_steps[first % STORM_KINDS_USED](s, 1, 1);
    }
}

#endif
