// flags: -pthread
// expect: live fn=xmalloc kind=malloc count=110 bytes=88320
// expect: live fn=make_table kind=calloc count=5 bytes=5000
// Blocks that questions can be asked about: 100 of 64 bytes by the main thread, 10 of 8 KiB by a thread "worker-3", both
// through a wrapper of malloc, 5 tables; and 20 that are freed.
#include "victim.h"

#include <pthread.h>

CALL_SITE void *xmalloc(size_t size) { return opaque(malloc(size)); }
CALL_SITE void *keep_small(void) { return opaque(xmalloc(64)); }
CALL_SITE void *parse_large(void) { return opaque(xmalloc(8192)); }
CALL_SITE void *make_table(void) { return opaque(calloc(10, 100)); }
CALL_SITE void *pass_by(void) { return opaque(xmalloc(300)); }

static void *work(void *unused)
{
    (void)unused;
    CHECK(pthread_setname_np(pthread_self(), "worker-3") == 0);
    for (int i = 0; i < 10; i++)
        memset(parse_large(), 1, 8192);
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 100; i++)
        memset(keep_small(), 1, 64);
    for (int i = 0; i < 5; i++)
        memset(make_table(), 1, 1000);
    for (int i = 0; i < 20; i++)
        free(pass_by());
    pthread_t worker;
    CHECK(pthread_create(&worker, NULL, work, NULL) == 0);
    CHECK(pthread_join(worker, NULL) == 0);
    return 0;
}
