// flags: -pthread
// stress: 6
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=in_handler count=0
// Handlers of pthread_atfork that allocate, free, and take a lock that the other threads hold while they allocate; two threads
// fork at once. ARG1 forks each, default 20. A child that waits for ever is ended by alarm.
#include "later_blocks.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *volatile prepared, *volatile reserve;
static volatile int stop;
static long forks;

CALL_SITE void *in_handler(size_t n) { return opaque(malloc(n)); }

static void prepare(void)
{
    pthread_mutex_lock(&lock);
    prepared = in_handler(500);
    CHECK(prepared != NULL);
    memset(prepared, 9, 500);
}
static void both(void)
{
    CHECK(((char *)prepared)[499] == 9);
    void *more = in_handler(3000);
    CHECK(more != NULL);
    free(prepared);
    free(more);
    pthread_mutex_unlock(&lock);
}

static void *busy(void *arg)
{
    uint32_t seed = (uint32_t)(uintptr_t)arg;
    while (!stop) {
        pthread_mutex_lock(&lock);
        free(reserve);
        reserve = malloc(next_random(&seed) % 3000);
        pthread_mutex_unlock(&lock);
        void *p = opaque(calloc(1, next_random(&seed) % 9000));
        free(opaque(realloc(p, 10 + next_random(&seed) % 200)));
    }
    return NULL;
}

static void *forker(void *arg)
{
    for (long i = 0; i < forks; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(500);
            void *p[64];
            for (int k = 0; k < 64; k++)
                CHECK((p[k] = opaque(malloc(k * 50))) != NULL);
            for (int k = 0; k < 64; k++)
                free(p[k]);
            pthread_mutex_lock(&lock);
            free(reserve);
            _exit(6);
        }
        reap(child, 6);
    }
    return arg;
}

int main(int argc, char **argv)
{
    forks = arg_number(argc, argv, 1, 20);
    CHECK(pthread_atfork(prepare, both, both) == 0);
    pthread_t t[4];
    for (long i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, i < 2 ? busy : forker, (void *)(i + 1)) == 0);
    for (int i = 2; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    stop = 1;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    free(reserve);
    later_blocks();
    printf("forked %ld\n", 2 * forks);
    return 0;
}
