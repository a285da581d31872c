// flags: -pthread -fexceptions
// expect: live fn=leak_in_cleanup kind=malloc count=30 bytes=810
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Threads that end by pthread_cancel and by pthread_exit from deep calls: libgcc unwinds them by force, clean-up handlers allocate.
#include "later_blocks.h"

static pthread_barrier_t ready;
static volatile int never; // else gcc sees that nothing returns and warns of endless recursion

CALL_SITE void *leak_in_cleanup(void) { return opaque(malloc(27)); }

static void cleanup(void *p)
{
    free(p);
    free(opaque(malloc(50)));
    leak_in_cleanup();
}
__attribute__((noipa)) static int descend(int depth, int cancel)
{
    char frame[100];
    memset(opaque(frame), depth, sizeof frame);
    if (depth > 0)
        return descend(depth - 1, cancel) + frame[3];
    void *held = malloc(400);
    pthread_cleanup_push(cleanup, held);
    pthread_barrier_wait(&ready);
    if (!cancel && !never)
        pthread_exit((void *)7);
    while (!never) {
        free(opaque(malloc(60)));
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return 0;
}
static void *work(void *arg)
{
    descend(20, (int)(intptr_t)arg);
    return NULL;
}

int main(void)
{
    pthread_barrier_init(&ready, NULL, 2);
    for (intptr_t i = 0; i < 30; i++) {
        pthread_t t;
        void *result;
        CHECK(pthread_create(&t, NULL, work, (void *)(i % 2)) == 0);
        pthread_barrier_wait(&ready);
        if (i % 2)
            CHECK(pthread_cancel(t) == 0);
        CHECK(pthread_join(t, &result) == 0);
        CHECK(result == (i % 2 ? PTHREAD_CANCELED : (void *)7));
    }
    later_blocks();
    printf("ended 30\n");
    return 0;
}
