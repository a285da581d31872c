// expect: live fn=leak_in_handler kind=malloc count=100 bytes=4500
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// A handler that allocates, raised where the interrupted code is not inside malloc; also handlers within handlers.
#include "later_blocks.h"

static int calls;
static void *from_handler;

CALL_SITE void *leak_in_handler(void) { return opaque(malloc(45)); }

static void handler(int sig)
{
    for (int i = 0; i < 10; i++)
        free(opaque(calloc(i + 1, 30)));
    from_handler = malloc(90);
    if (sig == SIGUSR1) {
        if (calls++ < 100)
            leak_in_handler();
        raise(SIGUSR2);
    }
    free(from_handler == NULL ? NULL : opaque(malloc(10)));
}

int main(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0 && sigaction(SIGUSR2, &sa, NULL) == 0);
    for (int i = 0; i < 1000; i++) {
        void *p = opaque(malloc(100));
        CHECK(raise(SIGUSR1) == 0);
        free(p);
    }
    later_blocks();
    printf("handled %d\n", calls);
    return 0;
}
