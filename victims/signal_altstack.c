// flags: -pthread
// stress: 100
// expect: live fn=leak_on_altstack kind=malloc count=20 bytes=620
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Handlers that allocate on an alternate stack, which may lie above or below the stack it interrupts, in two threads, ARG1 times in
// each (default 500).
#include "later_blocks.h"

static __thread int calls;
static long wanted;

CALL_SITE void *leak_on_altstack(void) { return opaque(malloc(31)); }

static void handler(int sig)
{
    (void)sig;
    for (int i = 0; i < 20; i++)
        free(opaque(malloc(10 + i)));
    if (calls++ < 10)
        leak_on_altstack();
}
static void *work(void *arg)
{
    size_t size = 128 * 1024;
    stack_t alt = {.ss_size = size, .ss_flags = 0};
    // Below the stack in one thread, somewhere in the heap in the other.
    alt.ss_sp = arg ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : malloc(size);
    CHECK(alt.ss_sp != MAP_FAILED && sigaltstack(&alt, NULL) == 0);
    for (int i = 0; i < wanted; i++) {
        void *p = opaque(malloc(100));
        CHECK(raise(SIGUSR1) == 0);
        free(p);
    }
    stack_t off = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&off, NULL) == 0);
    if (arg)
        munmap(alt.ss_sp, size);
    else
        free(alt.ss_sp);
    CHECK(calls == wanted);
    return NULL;
}

int main(int argc, char **argv)
{
    wanted = arg_number(argc, argv, 1, 500);
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    sa.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, work, (void *)1) == 0);
    work(NULL);
    CHECK(pthread_join(t, NULL) == 0);
    later_blocks();
    printf("handled\n");
    return 0;
}
