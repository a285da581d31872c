// flags: -fno-builtin
// Every C entry point with ordinary and edge arguments. What is printed must be the same with and without the tracker.
#include "victim.h"
#include <dlfcn.h>

static const char *name_of(int e)
{
    switch (e) {
    case 0: return "0";
    case ENOMEM: return "ENOMEM";
    case EINVAL: return "EINVAL";
    case 77: return "kept";
    default: return "other";
    }
}

static void show(const char *what, void *p, size_t size, size_t align, int exact)
{
    int e = errno;
    printf("%-44s %s errno=%s", what, p ? "block" : "null", name_of(e));
    if (p) {
        size_t usable = malloc_usable_size(p);
        CHECK(usable >= size);
        CHECK((uintptr_t)p % (align ? align : 16) == 0);
        memset(p, 0xA5, usable);
        if (exact)
            printf(" usable=%zu", usable);
    }
    printf("\n");
    errno = 77;
}

#define SHOW(call, size, align, exact, release)  \
    do {                                         \
        errno = 77;                              \
        void *p_ = opaque(call);                 \
        show(#call, p_, size, align, exact);     \
        if (release)                             \
            free(p_);                            \
    } while (0)

int main(void)
{
    static const size_t sizes[] = {0, 1, 8, 16, 23, 24, 25, 40, 100, 1000, 1032, 1033, 4096, 65536, 131071, 200000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        printf("size %zu\n", n);
        SHOW(malloc(n), n, 16, 1, 1);
        SHOW(calloc(1, n), n, 16, 1, 1);
        SHOW(calloc(n, 1), n, 16, 1, 1);
        SHOW(realloc(NULL, n), n, 16, 1, 1);
        SHOW(reallocarray(NULL, 1, n), n, 16, 1, 1);
    }
    // From here on no usable size is printed: where blocks of large alignment leave gaps depends on the address of the heap.
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        printf("aligned, size %zu\n", n);
        for (size_t align = 1; align <= 65536; align *= 4) {
            void *p = (void *)0x1234;
            errno = 77;
            int r = posix_memalign(&p, align, n);
            printf("posix_memalign %zu: %s errno=%s\n", align, name_of(r), name_of(errno));
            CHECK(r == 0 ? (uintptr_t)p % align == 0 && malloc_usable_size(p) >= n : p == (void *)0x1234);
            if (r == 0) {
                memset(p, 1, n);
                free(p);
            }
            SHOW(aligned_alloc(align, n), n, align, 0, 1);
            SHOW(memalign(align, n), n, align, 0, 1);
        }
        SHOW(valloc(n), n, 4096, 0, 1);
        SHOW(pvalloc(n), (n + 4095) / 4096 * 4096, 4096, 0, 1);
    }

    // Too large, or a product that overflows.
    size_t huge = opaque_size((size_t)PTRDIFF_MAX + 1), most = opaque_size(SIZE_MAX);
    SHOW(malloc(huge), 0, 0, 0, 1);
    SHOW(malloc(most), 0, 0, 0, 1);
    SHOW(malloc(most - 4096), 0, 0, 0, 1);
    SHOW(calloc(most / 2, 4), 0, 0, 0, 1);
    SHOW(calloc(4, most / 2), 0, 0, 0, 1);
    SHOW(calloc(huge, 1), 0, 0, 0, 1);
    SHOW(calloc(0, most), 0, 0, 0, 1);
    SHOW(realloc(NULL, huge), 0, 0, 0, 1);
    SHOW(reallocarray(NULL, most / 2, 4), 0, 0, 0, 1);
    SHOW(aligned_alloc(64, huge), 0, 0, 0, 1);
    SHOW(aligned_alloc(64, most), 0, 0, 0, 1);
    SHOW(memalign(4096, most), 0, 0, 0, 1);
    SHOW(memalign(huge + 1, 1), 0, 0, 0, 1);
    SHOW(valloc(most), 0, 0, 0, 1);
    SHOW(pvalloc(most), 0, 0, 0, 1);
    SHOW(pvalloc(huge), 0, 0, 0, 1);

    // Alignments that are no power of two, sizes that are no multiple of the alignment.
    SHOW(memalign(48, 10), 10, 64, 0, 1);
    SHOW(memalign(100, 10), 10, 128, 0, 1);
    SHOW(memalign(0, 10), 10, 16, 0, 1);
    SHOW(aligned_alloc(48, 10), 10, 0, 0, 1);
    SHOW(aligned_alloc(0, 10), 10, 0, 0, 1);
    SHOW(aligned_alloc(64, 100), 100, 64, 0, 1);
    SHOW(aligned_alloc(4096, 1), 1, 4096, 0, 1);
    SHOW(aligned_alloc(32, 0), 0, 32, 0, 1);
    // Each alignment there is up to a kilobyte, and all that are none: which give a block, and how well that is aligned.
    for (int which = 0; which < 3; which++) {
        printf("alignments of %s:", which == 0 ? "aligned_alloc" : which == 1 ? "memalign" : "posix_memalign");
        for (size_t align = 0; align <= 1024; align++) {
            void *p = NULL;
            size_t wide = 1;
            while (wide < align) wide *= 2;
            if (which == 0) p = aligned_alloc(align, 64);
            else if (which == 1) p = memalign(align, 64);
            else if (posix_memalign(&p, align, 64) != 0) p = NULL;
            putchar(p == NULL ? '0' : (uintptr_t)p % wide == 0 ? '1' : 'x');
            free(p);
        }
        putchar('\n');
    }
    static const size_t odd[] = {0, 1, 2, 3, 4, 7, 12, 24, 48, 100, SIZE_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        void *p = (void *)0x1234;
        errno = 77;
        int r = posix_memalign(&p, odd[i], 10);
        printf("posix_memalign odd %zu: %s errno=%s\n", odd[i], name_of(r), name_of(errno));
        CHECK(r == EINVAL && p == (void *)0x1234);
    }
    void *untouched = (void *)0x1234;
    errno = 77;
    int r = posix_memalign(&untouched, 64, huge);
    printf("posix_memalign huge: %s errno=%s\n", name_of(r), name_of(errno));
    CHECK(r == ENOMEM && untouched == (void *)0x1234);

    // calloc of a block that was dirty before.
    for (size_t n = 1; n < 300000; n = n * 3 + 1) {
        char *p = malloc(n);
        memset(p, 0xff, n);
        free(opaque(p));
        p = opaque(calloc(n, 1));
        for (size_t i = 0; i < n; i++)
            CHECK(p[i] == 0);
        free(p);
    }

    // realloc: contents, failure keeps the block, zero frees it.
    char *p = malloc(100);
    for (int i = 0; i < 100; i++)
        p[i] = i;
    p = opaque(realloc(p, 300000));
    for (int i = 0; i < 100; i++)
        CHECK(p[i] == i);
    p = opaque(realloc(p, 3000000)); // mremap in glibc
    for (int i = 0; i < 100; i++)
        CHECK(p[i] == i);
    p = opaque(realloc(p, 50));
    for (int i = 0; i < 50; i++)
        CHECK(p[i] == i);
    size_t before = malloc_usable_size(p);
    errno = 77;
    void *q = opaque(realloc(opaque(p), huge));
    printf("realloc to a huge size: %s errno=%s\n", q ? "block" : "null", name_of(errno));
    errno = 77;
    q = opaque(reallocarray(opaque(p), most / 2, 4));
    printf("reallocarray overflow: %s errno=%s\n", q ? "block" : "null", name_of(errno));
    CHECK(malloc_usable_size(p) == before);
    for (int i = 0; i < 50; i++)
        CHECK(p[i] == i);
    p = opaque(reallocarray(p, 10, 20));
    for (int i = 0; i < 50; i++)
        CHECK(p[i] == i);
    errno = 77;
    q = opaque(realloc(p, 0));
    printf("realloc to 0: %s errno=%s\n", q ? "block" : "null", name_of(errno));
    free(q);
    p = malloc(10);
    errno = 77;
    q = opaque(reallocarray(p, 0, 5));
    printf("reallocarray to 0: %s errno=%s\n", q ? "block" : "null", name_of(errno));
    free(q);
    p = memalign(4096, 100);
    memset(p, 0x5a, 100);
    p = opaque(realloc(p, 10000));
    for (int i = 0; i < 100; i++)
        CHECK(p[i] == 0x5a);
    p = opaque(realloc(p, 10));
    CHECK(p[9] == 0x5a);
    free(p);

    // free: of nothing, and errno stays.
    errno = 77;
    free(opaque(NULL));
    CHECK(errno == 77);
    p = malloc(10);
    errno = 77;
    free(opaque(p));
    CHECK(errno == 77);
    p = malloc(10000000); // munmap inside free
    errno = 77;
    free(opaque(p));
    CHECK(errno == 77);
    CHECK(malloc_usable_size(NULL) == 0);

    // Successful calls leave errno alone as well.
    errno = 77;
    p = opaque(malloc(10000000));
    free(p);
    CHECK(errno == 77);

    // Present or not, the printed text stays the same.
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    if (free_sized) {
        errno = 77;
        free_sized(opaque(malloc(40)), 40);
        free_sized(NULL, 0);
        CHECK(errno == 77);
    }
    void (*free_aligned)(void *, size_t, size_t) = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    if (free_aligned) {
        errno = 77;
        free_aligned(opaque(aligned_alloc(64, 128)), 64, 128);
        free_aligned(NULL, 64, 0);
        CHECK(errno == 77);
    }
    printf("done\n");
    return 0;
}
