// flags: -pthread
// expect: live fn=leak_at_exit kind=malloc count=3 bytes=63
// Frees and allocations that happen after main: atexit, a library-style destructor, and a thread that works meanwhile.
#include "victim.h"

static void *block[100];
static volatile int stop, stopped;
static pthread_t helper;
void *volatile kept[3];

CALL_SITE void leak_at_exit(int i) { kept[i] = opaque(malloc(21)); }

static void *work(void *arg)
{
    while (!stop)
        free(opaque(malloc(50)));
    for (int i = 0; i < 50; i++) // blocks of the main thread, freed by this one while exit() runs
        free(block[i]);
    stopped = 1;
    return arg;
}
static void handler(void)
{
    stop = 1;
    CHECK(pthread_join(helper, NULL) == 0);
    CHECK(stopped);
    leak_at_exit(0);
}
static void handler_first(void)
{
    for (int i = 50; i < 75; i++)
        free(block[i]);
    leak_at_exit(1);
}
__attribute__((destructor)) static void late(void)
{
    for (int i = 75; i < 100; i++)
        free(block[i]);
    leak_at_exit(2);
    CHECK(write(1, "late\n", 5) == 5);
}

int main(void)
{
    for (int i = 0; i < 100; i++)
        block[i] = opaque(malloc(10 + i));
    atexit(handler_first);
    atexit(handler);
    CHECK(pthread_create(&helper, NULL, work, NULL) == 0);
    return 0;
}
