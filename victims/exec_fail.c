// flags: -pthread
// expect: live fn=before_exec kind=malloc count=3 bytes=63
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// An exec that fails (missing file, directory, not executable, no room for the arguments) must leave the recording alive.
#include "later_blocks.h"

CALL_SITE void *before_exec(void) { return opaque(malloc(21)); }

static void *in_thread(void *arg)
{
    CHECK(execl("/nonexistent/program", "x", (char *)NULL) == -1 && errno == ENOENT);
    return arg;
}

int main(void)
{
    for (int i = 0; i < 3; i++)
        before_exec();
    CHECK(execl("/nonexistent/program", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(execl("/", "x", (char *)NULL) == -1 && errno == EACCES);
    CHECK(execlp("no-such-program-here", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(execl("/etc/passwd", "x", (char *)NULL) == -1 && errno == EACCES);
    static char huge[3 << 20];
    memset(huge, 'x', sizeof huge - 1);
    CHECK(execl("/bin/true", "true", huge, (char *)NULL) == -1 && errno == E2BIG);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    later_blocks();
    printf("still here\n");
    return 0;
}
