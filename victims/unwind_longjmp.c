// A storm in which half of all marks are followed by a longjmp to any outer step. It goes on there and calls others, whose
// frames take the same slots of the stack: some words there are new, some are left over, some are equal by chance.
#include <setjmp.h>
#define STORM_ARRIVE(s, size, depth) setjmp(((jmp_buf *)s->own)[depth])
#define STORM_LEAVE(s, depth) leave(s, depth)
struct storm;
static void leave(struct storm *s, int depth);
#include "unwind_storm.h"

static jmp_buf places[STORM_DEEPEST + 1];
static volatile int jumps;

__attribute__((noipa)) static void leave(struct storm *s, int depth)
{
    uint32_t way = next_random(&s->random);
    if (way % 2 == 0 || depth < 2)
        return;
    jumps++;
    longjmp(places[1 + (way >> 8) % (depth - 1)], 1);
}

// A call that never returns, as a function's last instruction: the return address lies in the next function, whose frame is
// of another shape.
static jmp_buf out_of_last;
CALL_SITE __attribute__((noreturn)) void never_returns(size_t size)
{
    MARK(size);
    longjmp(out_of_last, 1);
}
CALL_SITE __attribute__((noreturn)) void ends_in_a_call(size_t size)
{
    char room[200];
    opaque(room);
    never_returns(size);
}
CALL_SITE __attribute__((noreturn)) void ends_so_too(size_t size)
{
    char room[40];
    opaque(room);
    never_returns(size);
}

int main(void)
{
    static struct storm s = {.random = 2463534242, .own = places};
    volatile int i;
    for (i = 0; i < 40; i++) {
        storm(&s, (i + 1) * 75);
        if (setjmp(out_of_last) == 0) {
            if (i % 2)
                ends_in_a_call(7001);
            else
                ends_so_too(7002);
        }
    }
    CHECK(jumps > 500);
    printf("marks %d\n", s.marks + i);
    return 0;
}
