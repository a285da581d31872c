// expect: live fn=lost_by_jump kind=malloc count=1000 bytes=60000
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// longjmp out of deep calls, from a handler and from a qsort callback: the stack is cut without a return.
#include "later_blocks.h"
#include <setjmp.h>

static jmp_buf back;

CALL_SITE void *lost_by_jump(void) { return opaque(malloc(60)); }

__attribute__((noipa)) static int descend(int depth, int n)
{
    char frame[200];
    memset(opaque(frame), depth, sizeof frame);
    if (depth == 0) {
        lost_by_jump();
        if (n >= 0) // always; but else gcc warns of endless recursion
            longjmp(back, n + 1);
        return 0;
    }
    return descend(depth - 1, n) + frame[7];
}
static int compare(const void *a, const void *b)
{
    (void)a, (void)b;
    free(opaque(malloc(25)));
    longjmp(back, 3);
}

int main(void)
{
    volatile int jumped = 0;
    for (volatile int i = 0; i < 1000; i++) {
        int how = setjmp(back);
        if (how == 0)
            descend(i % 300, i);
        CHECK(how == i + 1);
        jumped++;
        free(opaque(malloc(33)));
    }
    for (volatile int i = 0; i < 100; i++) {
        int a[3] = {3, 2, 1};
        if (setjmp(back) == 0)
            qsort(a, 3, sizeof *a, compare);
        jumped++;
    }
    later_blocks();
    printf("jumped %d\n", jumped);
    return 0;
}
