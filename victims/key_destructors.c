// flags: -pthread
// expect: live fn=leak_in_key_destructor kind=malloc count=40 bytes=1320
// pthread key destructors that allocate, free, and set their key again, so that glibc calls them in several rounds.
#include "victim.h"

static pthread_key_t key[3];
static int calls;
void *volatile kept[40];

CALL_SITE void leak_in_key_destructor(int i) { kept[i] = opaque(malloc(33)); }

static void destroy(void *value)
{
    free(value);
    for (int i = 0; i < 20; i++)
        free(opaque(calloc(3, 7 + i)));
    int n = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (n < 40)
        leak_in_key_destructor(n);
}
static void destroy_again(void *value)
{
    int *rounds = value;
    if (--*rounds > 0) {
        int *next = malloc(sizeof *next);
        *next = *rounds;
        pthread_setspecific(key[2], next);
    }
    destroy(value);
}
static void *work(void *arg)
{
    (void)arg;
    pthread_setspecific(key[0], malloc(100));
    pthread_setspecific(key[1], malloc(200));
    int *rounds = malloc(sizeof *rounds);
    *rounds = 3;
    pthread_setspecific(key[2], rounds);
    return NULL;
}

int main(void)
{
    CHECK(pthread_key_create(&key[0], destroy) == 0);
    CHECK(pthread_key_create(&key[1], destroy) == 0);
    CHECK(pthread_key_create(&key[2], destroy_again) == 0);
    for (int i = 0; i < 16; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, work, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
    printf("destructor calls %d\n", calls);
    CHECK(calls == 16 * 5);
    return 0;
}
