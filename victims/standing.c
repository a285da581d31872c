// expect-run 1: live fn=standing_block kind=malloc count=1000 bytes=100000
// run:
// run: 50000
// expect-run 2: live fn=standing_block kind=malloc count=50000 bytes=5000000
// Allocates ARG1 blocks (default 1000) of 100 bytes, says so, and stands still until its input ends: for looking at a process
// that runs and does nothing, for killing it, for core dumps.
#include "victim.h"

CALL_SITE void *standing_block(void) { return opaque(malloc(100)); }

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 1000);
    for (long i = 0; i < count; i++)
        memset(standing_block(), 1, 100);
    CHECK(write(1, "standing\n", 9) == 9);
    char c;
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}
