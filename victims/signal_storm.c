// stress: 20
// expect: live fn=leak_in_handler kind=malloc count=100 bytes=4500
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Asynchronous signals from a timer. glibc's malloc may not be entered twice, so the handler allocates only when the main
// loop says that it is not in malloc; signals that come inside malloc still interrupt the tracker. ARG1 signals are handled by
// allocating (default 200).
#include "later_blocks.h"
#include <sys/time.h>

static volatile sig_atomic_t outside_malloc, handled, inside;

CALL_SITE void *leak_in_handler(void) { return opaque(malloc(45)); }

static void handler(int sig)
{
    (void)sig;
    if (!outside_malloc) {
        inside++;
        return;
    }
    for (int i = 0; i < 20; i++)
        free(opaque(malloc(i * 40)));
    if (handled < 100)
        leak_in_handler();
    handled++;
}

int main(int argc, char **argv)
{
    long wanted = arg_number(argc, argv, 1, 200);
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    sa.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    void *volatile p[8];
    while (handled < wanted) {
        for (int i = 0; i < 8; i++)
            p[i] = opaque(malloc(200 + i * 100));
        outside_malloc = 1;
        __asm__ volatile("" : : : "memory");
        for (volatile int spin = 0; spin < 300; spin++)
            ;
        __asm__ volatile("" : : : "memory");
        outside_malloc = 0;
        for (int i = 0; i < 8; i++)
            free(p[i]);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    later_blocks();
    printf("stormed\n");
    return 0;
}
