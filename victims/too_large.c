// flags: -pthread -Wno-alloc-size-larger-than
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=kept_block kind=malloc count=4 bytes=4000
// Four threads ask for what nobody can have, by every function, around PTRDIFF_MAX and SIZE_MAX: nothing, ENOMEM, and their
// own blocks stay as they are. A size that can be had, one GiB, is had, and is not touched in between.
#include "later_blocks.h"

CALL_SITE void *kept_block(void) { return opaque(malloc(1000)); }

static size_t size_of(int i)
{
    static const size_t sizes[] = {(size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX - 1, SIZE_MAX,
                                   SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4096, SIZE_MAX / 2 - 4096, SIZE_MAX / 3,
                                   SIZE_MAX - 64 * 1024, (size_t)PTRDIFF_MAX - 64 * 1024, (size_t)1 << 62};
    return i < (int)(sizeof sizes / sizeof sizes[0]) ? opaque_size(sizes[i]) : 0;
}

#define NOTHING(call)                          \
    do {                                       \
        errno = 77;                            \
        CHECK((call) == NULL && errno == ENOMEM); \
    } while (0)

static void *work(void *arg)
{
    unsigned char *kept = kept_block();
    memset(kept, (int)(intptr_t)arg, 1000);
    for (int round = 0; round < 20; round++) {
        size_t n;
        for (int i = 0; (n = size_of(i)) != 0; i++) {
            NOTHING(malloc(n));
            NOTHING(calloc(n, 1));
            NOTHING(calloc(1, n));
            NOTHING(calloc(n, n));
            NOTHING(calloc(n / 2 + 1, 2));
            NOTHING(realloc(kept, n));
            NOTHING(realloc(NULL, n));
            NOTHING(reallocarray(kept, n, 1));
            NOTHING(reallocarray(kept, n, n));
            NOTHING(reallocarray(NULL, n / 4 + 1, 4));
            for (size_t align = 8; align <= 1 << 20; align *= 32) {
                NOTHING(memalign(align, n));
                NOTHING(aligned_alloc(align, n));
                void *untouched = arg;
                errno = 77;
                CHECK(posix_memalign(&untouched, align, n) == ENOMEM && untouched == arg && errno == 77);
                CHECK(posix_memalign(&untouched, align + 8 * (align > 8) + 4, 16) == EINVAL && untouched == arg);
            }
            NOTHING(valloc(n));
            NOTHING(pvalloc(n));
        }
        // Alignments that are no power of two are rounded up, or refused; nothing else.
        for (size_t align = 1; align < 200; align += 7) {
            void *p = memalign(opaque_size(align), 33);
            CHECK(p != NULL && ((uintptr_t)p & 15) == 0 && malloc_usable_size(p) >= 33);
            errno = 77;
            free(p);
            CHECK(errno == 77);
        }
        char *much = malloc((size_t)1 << 30);
        CHECK(much != NULL && malloc_usable_size(much) >= (size_t)1 << 30);
        much[0] = much[((size_t)1 << 30) - 1] = 1;
        errno = 77;
        free(opaque(much));
        CHECK(errno == 77);
        for (int i = 0; i < 1000; i++)
            CHECK(kept[i] == (unsigned char)(intptr_t)arg);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[4];
    for (intptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    later_blocks();
    printf("nothing\n");
    return 0;
}
