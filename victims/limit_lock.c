// expect: live fn=kept_block kind=malloc count=1000 bytes=100000
// Locks all of its memory with a limit that leaves room for itself and no right to go beyond.
#include "victim.h"
#include <sys/resource.h>
#include <sys/syscall.h>

CALL_SITE char *kept_block(void) { return (char *)opaque(malloc(100)); }

int main(void)
{
    struct rlimit limit = {32 << 20, 32 << 20}, old;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &old) == 0);
    // A limit below cannot be raised without the right; then it is what it is, and may be too little.
    int may_lock = old.rlim_max >= limit.rlim_max && setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
    if (geteuid() == 0)
        CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    CHECK(mlockall(MCL_CURRENT) == 0 || !may_lock);
    CHECK(munlockall() == 0);
    CHECK(syscall(SYS_mlockall, MCL_CURRENT) == 0 || !may_lock);
    CHECK(munlockall() == 0);
    errno = 0;
    CHECK(mlockall(1000) == -1 && errno == EINVAL);
    for (int i = 0; i < 1000; i++)
        *kept_block() = 1;
    printf("locked and unlocked\n");
    return 0;
}
