// expect: live fn=before_drop kind=malloc count=3 bytes=300
// expect: live fn=after_drop kind=malloc count>=1
// A server that locks itself in: chdir, an empty root directory, another user (where it may; else only chdir), a low limit on open
// files. Then 100,000 blocks: whoever reopens a file by its path cannot any more, and must say how many blocks were lost.
#include "victim.h"
#include <grp.h>
#include <sys/resource.h>

CALL_SITE void *before_drop(void) { return opaque(malloc(100)); }
CALL_SITE void *after_drop(void) { return opaque(malloc(40)); }

int main(void)
{
    for (int i = 0; i < 3; i++)
        before_drop();
    char dir[] = "/tmp/victim-root-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    CHECK(chdir(dir) == 0);
    CHECK(rmdir(dir) == 0);
    // Not printed: the result depends on who runs the test.
    if (chroot(".") == 0)
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    struct rlimit none = {4, 4};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    for (long i = 0; i < 100000; i++) {
        long *p = after_drop();
        CHECK(p != NULL);
        *p = i;
    }
    for (int i = 0; i < 1000; i++)
        free(opaque(malloc(i)));
    printf("dropped\n");
    return 0;
}
