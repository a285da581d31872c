// flags: -pthread
// stress: 4
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=child_work count=0
// Forks while other threads allocate; each child starts threads of its own that allocate (a lock held across the fork hangs
// here: alarm ends the child). ARG1 forks, default 30.
#include "later_blocks.h"

static volatile int stop;

static void *busy(void *arg)
{
    uint32_t seed = (uint32_t)(uintptr_t)arg;
    while (!stop) {
        void *p[16];
        for (int i = 0; i < 16; i++)
            p[i] = opaque(malloc(next_random(&seed) % 2000));
        for (int i = 0; i < 16; i++)
            free(p[i]);
    }
    return NULL;
}
CALL_SITE void *child_work(void *arg)
{
    for (int i = 0; i < 200; i++) {
        char *p = malloc(100 + i);
        p[0] = 1;
        if (i % 4)
            free(opaque(p));
    }
    return arg;
}

int main(int argc, char **argv)
{
    long forks = arg_number(argc, argv, 1, 30);
    pthread_t t[3];
    for (long i = 0; i < 3; i++)
        CHECK(pthread_create(&t[i], NULL, busy, (void *)(i + 1)) == 0);
    for (long i = 0; i < forks; i++) {
        void *before = malloc(300);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(500);
            pthread_t c[2];
            for (int k = 0; k < 2; k++)
                CHECK(pthread_create(&c[k], NULL, child_work, NULL) == 0);
            child_work(NULL);
            free(before); // a block from before the fork
            for (int k = 0; k < 2; k++)
                CHECK(pthread_join(c[k], NULL) == 0);
            if (i % 2)
                exit(5);
            _exit(5);
        }
        reap(child, 5);
        free(before);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    later_blocks();
    // No output before: exit() in the children would flush a copy of the buffer.
    printf("forked %ld\n", forks);
    return 0;
}
