// losses: stacks_cut
// Stacks that are cut at the depth limit and others that are not, in turn, from the same outer frames: a cut stack begins
// somewhere else each time. Its innermost frames are right nonetheless.
//
// A mark is 1,000,000 + frames of `downwards` * 64 + the ways of the three innermost steps (two bits each, outermost first).
#include "victim.h"

#define MARK(size) free(opaque(malloc(size)))
// A multiple of 64, so that the ways are the last bits.
enum { ROUNDS = 300, WAYS = 4, STEPS = 3, FIRST = 1000000 };

typedef void step_fn(size_t mark, int left);
static step_fn *const steps[WAYS];
#define STEP(number, ...)                                                   \
    CALL_SITE __VA_ARGS__ void depth_step_##number(size_t mark, int left)   \
    {                                                                       \
        if (left == 0)                                                      \
            MARK(mark);                                                     \
        else                                                                \
            steps[mark >> 2 * (left - 1) & 3](mark, left - 1);              \
        __asm__ volatile("# " #number);                                     \
    }
STEP(0)
STEP(1)
STEP(2, __attribute__((optimize("no-omit-frame-pointer"))))
STEP(3)
static step_fn *const steps[WAYS] = {depth_step_0, depth_step_1, depth_step_2, depth_step_3};

CALL_SITE void downwards(int frames, size_t mark)
{
    if (frames > 1)
        downwards(frames - 1, mark);
    else
        steps[mark >> 2 * (STEPS - 1) & 3](mark, STEPS - 1);
    __asm__ volatile("# downwards");
}

int main(void)
{
    uint32_t random = 134775813;
    unsigned frames = 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t way = next_random(&random);
        // Around the limits of 16 and 512, a little more or less than before, or far from it.
        static const unsigned around[] = {8, 480, 600, 900};
        frames = way % 4 ? frames + (way >> 8) % 5 : around[(way >> 4) % 4] + (way >> 8) % 40;
        downwards(frames, FIRST + frames * 64 + (way >> 16) % 64);
    }
    printf("marks %d\n", ROUNDS);
    return 0;
}
