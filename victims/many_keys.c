// flags: -pthread
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Takes every pthread key the system has: a tracker that uses a key changes the number.
#include "later_blocks.h"

static pthread_key_t key[2000];
static int keys;
static int destroyed;

static void destroy(void *value)
{
    free(value);
    free(opaque(malloc(64)));
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}
static void *work(void *arg)
{
    for (int i = 0; i < keys; i++)
        CHECK(pthread_setspecific(key[i], malloc(16 + i % 64)) == 0);
    return arg;
}

int main(void)
{
    int r = 0;
    while (keys < 2000 && (r = pthread_key_create(&key[keys], destroy)) == 0)
        keys++;
    printf("keys %d, then %s\n", keys, r == EAGAIN ? "EAGAIN" : r == 0 ? "0" : "another error");
    for (int i = 0; i < 4; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, work, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    }
    CHECK(destroyed == 4 * keys);
    later_blocks();
    printf("destroyed %d\n", destroyed);
    return 0;
}
