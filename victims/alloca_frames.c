// expect: live fn=under_alloca kind=malloc count=64 bytes=3584
// Frames whose size is known only at run time (alloca, variable arrays, a realigned stack) between main and malloc.
#include "victim.h"
#include <alloca.h>

CALL_SITE void *under_alloca(void) { return opaque(malloc(56)); }

__attribute__((noipa)) static int realigned(int n)
{
    char line[256] __attribute__((aligned(256)));
    CHECK((uintptr_t)opaque(line) % 256 == 0);
    line[0] = n;
    under_alloca();
    return *(char *)opaque(line);
}
__attribute__((noipa)) static int array(int n)
{
    int a[n + 1];
    a[n] = realigned(n);
    return *(int *)opaque(&a[n]) + 0;
}
__attribute__((noipa)) static int frame(int n)
{
    char *p = alloca(n * 50 + 1);
    p[n] = 1;
    opaque(p);
    return array(n) + p[n];
}

int main(void)
{
    int sum = 0;
    for (int i = 0; i < 64; i++)
        sum += frame(i);
    printf("sum %d\n", sum);
    return 0;
}
