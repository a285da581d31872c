// expect: live fn=child_leak count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Children that no fork handler hears of: _Fork, and the clone system call with SIGCHLD only.
#include "later_blocks.h"
#include <sys/syscall.h>

CALL_SITE void *child_leak(size_t n) { return opaque(malloc(n)); }

static void in_child(void *inherited, int status)
{
    free(inherited);
    for (int i = 0; i < 5000; i++)
        *(char *)child_leak(1 + i % 100) = 1;
    for (int i = 0; i < 5000; i++)
        free(opaque(malloc(50)));
    _exit(status);
}

int main(void)
{
    for (int i = 0; i < 10; i++) {
        void *inherited = malloc(123);
        pid_t child = _Fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child(inherited, 6);
        reap(child, 6);
        child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        CHECK(child >= 0);
        if (child == 0)
            in_child(inherited, 7);
        reap(child, 7);
        free(inherited);
    }
    later_blocks();
    printf("20 children\n");
    return 0;
}
