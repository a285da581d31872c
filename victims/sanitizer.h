// What the sanitizer_* victims do: a thread, and blocks in both; nothing that a sanitizer would complain of.
#include "victim.h"

CALL_SITE void *sanitized_block(size_t n)
{
    return memset(malloc(n), 1, n);
}

static void *work(void *unused)
{
    free(sanitized_block(100));
    return unused;
}

void *kept; // visible outside, so that it is stored

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    kept = sanitized_block(777);
    kept = realloc(kept, 7777);
    CHECK(kept != NULL && *(char *)kept == 1);
    puts("sanitized");
    return 0;
}
