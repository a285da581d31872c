// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Since glibc 2.34 mtrace and mcheck do nothing without a library of their own, and the old hooks are gone: with the tracker they
// must not come to life, nor find fault with it. MALLOC_TRACE names a file that must not be written.
#include "later_blocks.h"
#include <mcheck.h>

static int called;
static void on_fault(enum mcheck_status status) { called = (int)status + 100; }

int main(void)
{
    char path[] = "/tmp/debug-hooks.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && setenv("MALLOC_TRACE", path, 1) == 0);
    int checks = mcheck(on_fault);
    mtrace();
    for (int i = 0; i < 1000; i++) {
        char *p = opaque(malloc(i));
        CHECK(p != NULL);
        memset(p, 1, i);
        CHECK(mprobe(p) == MCHECK_DISABLED || checks == 0);
        free(opaque(realloc(p, 2 * i + 1)));
    }
    mcheck_check_all();
    muntrace();
    CHECK(lseek(fd, 0, SEEK_END) == 0 && called == 0);
    CHECK(unlink(path) == 0 && close(fd) == 0);
    later_blocks();
    printf("mcheck says %d\n", checks);
    return 0;
}
