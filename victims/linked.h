// One body for the victims that differ only in how they are compiled or linked.
#include "victim.h"

CALL_SITE void leak_linked(void)
{
    for (int i = 0; i < 6; i++)
        opaque(malloc(37));
}
__attribute__((noipa)) static int middle(int n)
{
    if (n > 0)
        return middle(n - 1) + 1;
    leak_linked();
    for (int i = 0; i < 1000; i++) {
        void *p = opaque(calloc(3, 1 + i));
        p = opaque(realloc(p, 2000));
        free(p);
    }
    return 0;
}

int main(void)
{
    printf("depth %d\n", middle(10));
    return 0;
}
