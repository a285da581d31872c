// run: 400
// run: 600
// run: 20000
// losses: stacks_cut
// expect: live fn=deep_leak kind=malloc count=10 bytes=1010
// A malloc under a deep recursion (ARG1 frames, default 400), ten times with different stacks; alloca in between.
#include "victim.h"
#include <alloca.h>

CALL_SITE void *deep_leak(void) { return opaque(malloc(101)); }

__attribute__((noipa)) static long plain(long depth);
__attribute__((noipa)) static long with_alloca(long depth)
{
    char *p = alloca(16 + depth % 100);
    memset(opaque(p), 1, 16 + depth % 100);
    return plain(depth - 1) + p[3];
}
__attribute__((noipa)) static long plain(long depth)
{
    if (depth <= 0) {
        deep_leak();
        return 0;
    }
    return (depth % 3 == 0 ? with_alloca(depth) : plain(depth - 1)) + 1;
}

int main(int argc, char **argv)
{
    long depth = arg_number(argc, argv, 1, 400);
    long sum = 0;
    for (int i = 0; i < 10; i++)
        sum += plain(depth - i);
    printf("depth %ld sum %ld\n", depth, sum);
    return 0;
}
