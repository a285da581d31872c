// flags: -static-pie
// untracked: static
// A static PIE looks like a shared object to a hasty reader (ET_DYN), but has no interpreter.
#include "victim.h"

int main(void)
{
    for (int i = 0; i < 7; i++)
        opaque(malloc(111));
    printf("static pie\n");
    return 0;
}
