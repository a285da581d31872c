// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// mlockall makes real what is mapped: that must not be gigabytes of a ledger that is not there yet.
#include "later_blocks.h"

static long resident_kib(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%ld %ld", &ignored, &pages) == 2);
    fclose(f);
    return pages * 4;
}

int main(void)
{
    // Where the right or the limit to lock is missing there is nothing to see; both ways print the same.
    if (mlockall(MCL_CURRENT) == 0) {
        CHECK(resident_kib() < 128 << 10);
        munlockall();
    }
    later_blocks();
    printf("locked and unlocked\n");
    return 0;
}
