// losses: unknown_frees
// expect: live fn=make_foreign count=0
// expect: foreign count=30
// Blocks the tracker has never seen (from __libc_malloc, which no preload of malloc sees) given to free, realloc and reallocarray.
#include "victim.h"

extern void *__libc_malloc(size_t);
CALL_SITE char *make_foreign(size_t n) { return (char *)opaque(__libc_malloc(n)); }

int main(void)
{
    for (int i = 0; i < 10; i++) {
        char *p = make_foreign(100 + i);
        memset(p, i, 100);
        free(p);
        p = make_foreign(100 + i);
        memset(p, i, 100);
        p = (char *)opaque(realloc(p, 3000));
        for (int k = 0; k < 100; k++)
            CHECK(p[k] == i);
        free(p);
        p = make_foreign(100 + i);
        memset(p, i, 100);
        p = (char *)opaque(reallocarray(p, 30, 100));
        for (int k = 0; k < 100; k++)
            CHECK(p[k] == i);
        free(p);
        CHECK(malloc_usable_size(make_foreign(50)) >= 50);
    }
    printf("done\n");
    return 0;
}
