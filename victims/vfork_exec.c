// flags: -pthread
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// vfork followed by exec, and by a failing exec, while another thread allocates.
#include "later_blocks.h"

static volatile int stop;

static void *busy(void *arg)
{
    while (!stop)
        free(opaque(malloc(70)));
    return arg;
}

int main(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, busy, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl(i % 2 ? "/bin/true" : "/nonexistent/program", "true", (char *)NULL);
            _exit(9);
        }
        CHECK(child > 0);
        reap(child, i % 2 ? 0 : 9);
        free(opaque(malloc(40)));
    }
    stop = 1;
    CHECK(pthread_join(t, NULL) == 0);
    later_blocks();
    printf("20 children\n");
    return 0;
}
