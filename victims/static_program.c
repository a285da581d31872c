// flags: -static
// untracked: static
// A static program has no loader that would honour LD_PRELOAD.
#include "victim.h"

CALL_SITE void *leak_static(void) { return opaque(malloc(111)); }

int main(void)
{
    for (int i = 0; i < 7; i++)
        leak_static();
    printf("static\n");
    return 0;
}
