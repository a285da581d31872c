// flags: -fno-builtin
// untracked: own-allocator
// The program brings its own malloc (a bump allocator over a static array with one free list per size): the preload is never
// called for it, and that must be said.
#include "victim.h"

static char arena[64 << 20] __attribute__((aligned(4096)));
static size_t used;
static long calls;
static void *free_list[64];
struct head {
    size_t size; // usable
    void *next;
};

static struct head *head_of(void *p) { return (struct head *)p - 1; }
static int class_of(size_t n) { return n <= 16 ? 0 : 64 - __builtin_clzl((n - 1) / 16); }

void *memalign(size_t align, size_t n)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (n > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    int c = class_of(n);
    if (align <= 16 && free_list[c] != NULL) {
        void *p = free_list[c];
        free_list[c] = head_of(p)->next;
        return p;
    }
    size_t size = (size_t)16 << c;
    uintptr_t at = (uintptr_t)arena + used + sizeof(struct head);
    if (align < 16)
        align = 16;
    at = (at + align - 1) / align * align;
    if (at + size > (uintptr_t)arena + sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    used = at + size - (uintptr_t)arena;
    head_of((void *)at)->size = size;
    return (void *)at;
}
void *malloc(size_t n) { return memalign(16, n); }
void free(void *p)
{
    if (p == NULL)
        return;
    CHECK((char *)p > arena && (char *)p < arena + sizeof arena);
    int c = class_of(head_of(p)->size);
    head_of(p)->next = free_list[c];
    free_list[c] = p;
}
void *calloc(size_t a, size_t b)
{
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = opaque(malloc(n));
    if (p)
        memset(p, 0, n);
    return p;
}
void *realloc(void *p, size_t n)
{
    if (p != NULL && n == 0) {
        free(p);
        return NULL;
    }
    void *q = malloc(n);
    if (p != NULL && q != NULL) {
        memcpy(q, p, head_of(p)->size < n ? head_of(p)->size : n);
        free(p);
    }
    return q;
}
int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = memalign(align, n);
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
size_t malloc_usable_size(void *p) { return p ? head_of(p)->size : 0; }

int main(void)
{
    // No check on the number of calls before main: the loader's own depend on what is preloaded.
    long before = calls;
    char *copy = strdup("libc's strdup uses our malloc too");
    CHECK(calls == before + 1);
    for (int i = 0; i < 1000; i++) {
        void *p = opaque(malloc(i));
        p = opaque(realloc(p, i + 100));
        free(p);
    }
    CHECK(calls == before + 2001);
    printf("%s\n", copy);
    free(copy);
    return 0;
}
