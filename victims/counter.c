// shared-object: libcounter.so
// flags: -shared -fPIC -O2 -fno-builtin -ftls-model=initial-exec -fvisibility=hidden
// A counting library for the tests, independent of the tracker and next in line behind it:
//     LD_PRELOAD="tracker.so:libcounter.so" COUNTER_OUT=/tmp/counts program
// It counts what README.md here ("What counts") defines and forwards everything with dlsym(RTLD_NEXT). The counts lie in a shared
// mapping of COUNTER_OUT.PID (COUNTER_OUT.PID.1, .2 ... after an exec in the same process), so they survive any end. Where COUNTER_OUT
// ends in a + (which is not part of the path) forked children count, too, from their first call after the fork on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

// ---- The counts ----

// Name of each count. An allocation is counted under the name of its function, a free under that of its own; realloc is both.
#define COUNTS(X)                                                                                                      \
    X(malloc, "malloc")                                                                                                \
    X(calloc, "calloc")                                                                                                \
    X(realloc, "realloc")                                                                                              \
    X(reallocarray, "reallocarray")                                                                                    \
    X(posix_memalign, "posix_memalign")                                                                                \
    X(aligned_alloc, "aligned_alloc")                                                                                  \
    X(memalign, "memalign")                                                                                            \
    X(valloc, "valloc")                                                                                                \
    X(pvalloc, "pvalloc")                                                                                              \
    X(new, "new")                                                                                                      \
    X(new_array, "new[]")                                                                                              \
    X(new_nothrow, "new(nothrow)")                                                                                     \
    X(new_array_nothrow, "new[](nothrow)")                                                                             \
    X(new_align, "new(align)")                                                                                         \
    X(new_array_align, "new[](align)")                                                                                 \
    X(new_align_nothrow, "new(align,nothrow)")                                                                         \
    X(new_array_align_nothrow, "new[](align,nothrow)")                                                                 \
    X(free, "free")                                                                                                    \
    X(cfree, "cfree")                                                                                                  \
    X(free_sized, "free_sized")                                                                                        \
    X(free_aligned_sized, "free_aligned_sized")                                                                        \
    X(realloc_free, "realloc-free")                                                                                    \
    X(reallocarray_free, "reallocarray-free")                                                                          \
    X(delete, "delete")                                                                                                \
    X(delete_array, "delete[]")                                                                                        \
    X(delete_size, "delete(size)")                                                                                     \
    X(delete_array_size, "delete[](size)")                                                                             \
    X(delete_nothrow, "delete(nothrow)")                                                                               \
    X(delete_array_nothrow, "delete[](nothrow)")                                                                       \
    X(delete_align, "delete(align)")                                                                                   \
    X(delete_array_align, "delete[](align)")                                                                           \
    X(delete_size_align, "delete(size,align)")                                                                         \
    X(delete_array_size_align, "delete[](size,align)")                                                                 \
    X(delete_align_nothrow, "delete(align,nothrow)")                                                                   \
    X(delete_array_align_nothrow, "delete[](align,nothrow)")

enum count {
#define X(id, name) COUNT_##id,
    COUNTS(X)
#undef X
        COUNT_total
};
struct entry {
    char name[24]; // NUL-padded; the longest fits exactly with its NUL
    uint64_t count;
};
static const char names[COUNT_total][24] = {
#define X(id, name) name,
    COUNTS(X)
#undef X
};

static struct entry *table;     // [0] is the head: "#counter 1" and the number of entries that follow
static volatile char *alive;    // first byte of a page that the kernel wipes in a forked child
static int follows_forks;
static int state;               // 0 untouched, 1 one thread sets up, 2 ready or given up

static long raw(long n, long a, long b, long c, long d, long e, long f)
{
    // No libc wrapper: those are interposed by others, may be cancellation points, and set errno.
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return r;
}

// The value of COUNTER_OUT from the kernel's copy: environ is not set yet when an IFUNC resolver allocates.
static int output_path(char *path, size_t room)
{
    static const char key[] = "COUNTER_OUT=";
    static char buffer[4096];
    long fd = raw(SYS_open, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return 0;
    size_t matched = 0, length = 0; // within one variable
    int found = 0, skip = 0;
    for (long n; !found && (n = raw(SYS_read, fd, (long)buffer, sizeof buffer, 0, 0, 0)) > 0;)
        for (long i = 0; i < n && !found; i++) {
            char c = buffer[i];
            if (c == 0) {
                found = matched == sizeof key - 1 && length > 0;
                if (!found)
                    matched = length = 0, skip = 0;
            } else if (matched == sizeof key - 1) {
                if (length + 32 < room)
                    path[length++] = c;
            } else if (!skip && c == key[matched])
                matched++;
            else
                skip = 1;
        }
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    path[length] = 0;
    return found;
}

static char *put_number(char *at, unsigned long n)
{
    char digit[24];
    int k = 0;
    do
        digit[k++] = '0' + n % 10;
    while (n /= 10);
    while (k)
        *at++ = digit[--k];
    *at = 0;
    return at;
}

static void set_up(void)
{
    // Kept for forked children: a program may write its name over its environment.
    static char wanted[4096], path[4096];
    struct { unsigned long soft, hard; } limit;
    // Under a smaller limit on file size the write would be SIGXFSZ.
    if (raw(SYS_getrlimit, RLIMIT_FSIZE, (long)&limit, 0, 0, 0, 0) != 0 || limit.soft < sizeof(struct entry) * (COUNT_total + 1))
        return;
    if (wanted[0] == 0 && !output_path(wanted, sizeof wanted))
        return;
    memcpy(path, wanted, sizeof path);
    char *end = path + strlen(path);
    if (end > path && end[-1] == '+')
        end--, follows_forks = 1;
    *end++ = '.';
    end = put_number(end, raw(SYS_getpid, 0, 0, 0, 0, 0, 0));
    long fd = -EEXIST;
    for (int i = 0; i < 1000 && fd == -EEXIST; i++) {
        if (i > 0) {
            *end = '.';
            put_number(end + 1, i);
        }
        fd = raw(SYS_open, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, 0, 0, 0);
    }
    if (fd < 0)
        return;
    // Written, not only made longer: a store into a page that a full disk cannot back would be SIGBUS.
    static struct entry image[COUNT_total + 1];
    memcpy(image[0].name, "#counter 1", 11);
    image[0].count = COUNT_total;
    for (int i = 0; i < COUNT_total; i++)
        memcpy(image[i + 1].name, names[i], sizeof names[i]);
    long wrote = raw(SYS_write, fd, (long)image, sizeof image, 0, 0, 0);
    long shared = raw(SYS_mmap, 0, sizeof image, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    long page = raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (wrote != (long)sizeof image || (unsigned long)shared > -4096UL || (unsigned long)page > -4096UL)
        return;
    if (raw(SYS_madvise, page, 4096, MADV_WIPEONFORK, 0, 0, 0) != 0)
        return;
    alive = (volatile char *)page;
    *alive = 1;
    __atomic_store_n(&table, (struct entry *)shared, __ATOMIC_RELEASE);
}

// At load at the latest: a program that never allocates gets a file too, so that those of one process can be told by number.
__attribute__((constructor)) static void ensure_set_up(void)
{
    if (!LIKELY(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2)) {
        int zero = 0;
        if (__atomic_compare_exchange_n(&state, &zero, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            set_up();
            __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
        } else
            while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2)
                raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
}

static void count(enum count which)
{
    ensure_set_up();
    struct entry *t = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (t != NULL && !*alive && follows_forks) {
        // A forked child, which has one thread as yet: what is mapped is its parent's.
        table = NULL, state = 0;
        ensure_set_up();
        t = table;
    }
    if (t != NULL && *alive)
        __atomic_fetch_add(&t[which + 1].count, 1, __ATOMIC_RELAXED);
}

// ---- Calls within calls ----

// While the real operator new, delete or reallocarray runs, this says which call it will make into the family for its caller's
// sake; that one is not the program's and is not counted. A call that does not match, or comes after a match that gave a block,
// is the program's (a new_handler, an exception object). The frame address tells when an exception or a jump has left the
// outer call without a return. A new_handler that asks for just the size of the failed call is taken for the retry; when the
// retry then succeeds it is counted instead, and the sum is right.
enum kind { NOTHING, ALLOCATION, REALLOCATION, RELEASE };
struct expected {
    enum kind kind;
    size_t size, align;
    void *block;
    uintptr_t frame;
};
static __thread struct expected expected;

static inline __attribute__((always_inline)) uintptr_t here(void) { return (uintptr_t)__builtin_frame_address(0); }

static int is_expected(enum kind kind, size_t size, size_t align, const void *block, uintptr_t frame)
{
    const struct expected *e = &expected;
    if (e->kind != kind || e->frame <= frame || e->frame - frame > 256 * 1024)
        return 0;
    if (kind == RELEASE)
        return e->block == block;
    if (kind == REALLOCATION)
        return e->block == block && e->size == size;
    size_t asked = e->size ? e->size : 1;
    if (e->align == 0)
        return align == 0 && (size == e->size || size == asked);
    return align == e->align && (size == e->size || size == asked || size == ((asked + e->align - 1) & -e->align));
}

// Around a real call that makes calls of its own.
#define ENTER(kind_, size_, align_, block_)                                                 \
    struct expected outer_ = expected;                                                      \
    int internal_ = is_expected(kind_, size_, align_, block_, here());                      \
    expected = (struct expected){kind_, size_, align_, (void *)(uintptr_t)(block_), here()}
#define LEAVE(consumed)                                                                     \
    do {                                                                                    \
        expected = outer_;                                                                  \
        if (internal_ && (consumed))                                                        \
            expected.kind = NOTHING;                                                        \
    } while (0)

// ---- The real functions ----

// What a look-up of a missing symbol allocates for its message, before there is anybody to ask. Never given back.
static char arena[64 * 1024] __attribute__((aligned(16)));
static size_t arena_used;
static __thread int looking_up;

static int in_arena(const void *p) { return (const char *)p >= arena && (const char *)p < arena + sizeof arena; }
static void *arena_alloc(size_t n)
{
    if (n > sizeof arena / 2)
        return NULL;
    size_t at = __atomic_fetch_add(&arena_used, (n + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + n + 16 > sizeof arena)
        return NULL;
    *(size_t *)(arena + at) = n;
    return arena + at + 16;
}

static void die(const char *name)
{
    static const char text[] = "libcounter: no next ";
    raw(SYS_write, 2, (long)text, sizeof text - 1, 0, 0, 0);
    raw(SYS_write, 2, (long)name, strlen(name), 0, 0, 0);
    raw(SYS_write, 2, (long)"\n", 1, 0, 0, 0);
    raw(SYS_exit_group, 127, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

struct real {
    void *function;
    int nowhere; // in no scope that RTLD_NEXT searches
};

// The four functions that dlsym itself may call. They are looked up together, at the first call of any: a look-up in the middle of
// dlerror (which calls realloc) would free the very message that dlerror is about to return.
static struct real basic[4];
static const char *const basic_names[4] = {"malloc", "calloc", "realloc", "free"};

static void *next(struct real *r, const char *name, const char *version, int bootstrap)
{
    void *f = __atomic_load_n(&r->function, __ATOMIC_ACQUIRE);
    if (LIKELY(f != NULL))
        return f;
    int e = errno;
    for (int i = 0; bootstrap && i < 4; i++) {
        int was = looking_up;
        looking_up = 1;
        __atomic_store_n(&basic[i].function, dlsym(RTLD_NEXT, basic_names[i]), __ATOMIC_RELEASE);
        looking_up = was;
    }
    if (bootstrap)
        f = r->function;
    else if (!__atomic_load_n(&r->nowhere, __ATOMIC_RELAXED))
        f = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
    if (f == NULL) {
        // A C program that loaded a C++ plugin: libstdc++ is there, but in no global scope. Asked anew each time, because the
        // plugin, and the library with it, may be unloaded and come back elsewhere.
        __atomic_store_n(&r->nowhere, 1, __ATOMIC_RELAXED);
        void *h = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        f = h ? dlsym(h, name) : NULL;
        if (f == NULL)
            die(name);
        dlclose(h);
    } else
        __atomic_store_n(&r->function, f, __ATOMIC_RELEASE);
    errno = e;
    return f;
}
#define NEXT_AS(type, name, version) \
    static struct real slot_;        \
    __typeof__(type) *real = (__typeof__(type) *)next(&slot_, name, version, 0)
#define NEXT(type, name) NEXT_AS(type, name, NULL)
enum basic { BASIC_malloc, BASIC_calloc, BASIC_realloc, BASIC_free };
#define NEXT_BOOTSTRAP(type, name) __typeof__(type) *real = (__typeof__(type) *)next(&basic[BASIC_##name], #name, NULL, 1)

// ---- C ----

typedef void *size_fn(size_t);
typedef void *size2_fn(size_t, size_t);
typedef void *block_size_fn(void *, size_t);
typedef void *block_size2_fn(void *, size_t, size_t);
typedef void free_fn(void *);
typedef void free_size_fn(void *, size_t);
typedef void free_size2_fn(void *, size_t, size_t);
typedef int memalign_fn(void **, size_t, size_t);
typedef size_t usable_fn(void *);

static inline __attribute__((always_inline)) void *allocated(void *p, enum count which, size_t size, size_t align)
{
    if (p != NULL) {
        if (expected.kind == ALLOCATION && is_expected(ALLOCATION, size, align, NULL, here()))
            expected.kind = NOTHING;
        else
            count(which);
    }
    return p;
}
static inline __attribute__((always_inline)) void released(void *p, enum count which)
{
    if (p == NULL)
        return;
    if (expected.kind == RELEASE && is_expected(RELEASE, 0, 0, p, here()))
        expected.kind = NOTHING;
    else
        count(which);
}

EXPORT void *malloc(size_t n)
{
    if (looking_up)
        return allocated(arena_alloc(n), COUNT_malloc, n, 0);
    NEXT_BOOTSTRAP(size_fn, malloc);
    return allocated(real(n), COUNT_malloc, n, 0);
}
EXPORT void *calloc(size_t a, size_t b)
{
    size_t n;
    if (looking_up)
        return __builtin_mul_overflow(a, b, &n) ? NULL : allocated(arena_alloc(n), COUNT_calloc, n, 0);
    NEXT_BOOTSTRAP(size2_fn, calloc);
    return allocated(real(a, b), COUNT_calloc, a * b, 0);
}
EXPORT void free(void *p)
{
    released(p, COUNT_free);
    if (p == NULL || in_arena(p))
        return;
    NEXT_BOOTSTRAP(free_fn, free);
    real(p);
}

static void *reallocated(void *old, void *p, size_t n, enum count alloc, enum count release, uintptr_t frame)
{
    if (expected.kind == REALLOCATION && is_expected(REALLOCATION, n, 0, old, frame)) {
        if (p != NULL || n == 0)
            expected.kind = NOTHING;
        return p;
    }
    if (p != NULL)
        count(alloc);
    // No block for size zero: the old one was freed (glibc). No block for another size: nothing happened.
    if (old != NULL && (p != NULL || n == 0))
        count(release);
    return p;
}
EXPORT void *realloc(void *old, size_t n)
{
    if (looking_up || in_arena(old)) {
        void *p = looking_up ? arena_alloc(n) : malloc(n);
        if (p != NULL && old != NULL) {
            size_t had = ((size_t *)old)[-2];
            memcpy(p, old, had < n ? had : n);
        }
        return reallocated(old, p, n, COUNT_realloc, COUNT_realloc_free, here());
    }
    NEXT_BOOTSTRAP(block_size_fn, realloc);
    return reallocated(old, real(old, n), n, COUNT_realloc, COUNT_realloc_free, here());
}
EXPORT void *reallocarray(void *old, size_t a, size_t b)
{
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    NEXT(block_size2_fn, "reallocarray"); // glibc's jumps to the public realloc
    ENTER(REALLOCATION, n, 0, old);
    void *p = real(old, a, b);
    LEAVE(p != NULL || n == 0);
    return internal_ ? p : reallocated(old, p, n, COUNT_reallocarray, COUNT_reallocarray_free, here());
}
EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
    NEXT(memalign_fn, "posix_memalign");
    int r = real(out, align, n);
    if (r == 0)
        allocated(*out, COUNT_posix_memalign, n, align);
    return r;
}
EXPORT void *aligned_alloc(size_t align, size_t n)
{
    NEXT(size2_fn, "aligned_alloc");
    return allocated(real(align, n), COUNT_aligned_alloc, n, align);
}
EXPORT void *memalign(size_t align, size_t n)
{
    NEXT(size2_fn, "memalign");
    return allocated(real(align, n), COUNT_memalign, n, align);
}
EXPORT void *valloc(size_t n)
{
    NEXT(size_fn, "valloc");
    return allocated(real(n), COUNT_valloc, n, 4096);
}
EXPORT void *pvalloc(size_t n)
{
    NEXT(size_fn, "pvalloc");
    return allocated(real(n), COUNT_pvalloc, n, 4096);
}
EXPORT size_t malloc_usable_size(void *p)
{
    if (in_arena(p))
        return ((size_t *)p)[-2];
    NEXT(usable_fn, "malloc_usable_size");
    return real(p);
}
// Exported like glibc's: programs of old find it, dlsym without a version does not find it in libc.
EXPORT void cfree(void *p)
{
    released(p, COUNT_cfree);
    if (p == NULL || in_arena(p))
        return;
    NEXT_AS(free_fn, "cfree", "GLIBC_2.2.5");
    real(p);
}
// The C23 pair is younger than our glibc: where the next in line has none, free does.
EXPORT void free_sized(void *p, size_t n)
{
    released(p, COUNT_free_sized);
    if (p == NULL || in_arena(p))
        return;
    (void)n;
    NEXT_BOOTSTRAP(free_fn, free);
    real(p);
}
EXPORT void free_aligned_sized(void *p, size_t align, size_t n)
{
    released(p, COUNT_free_aligned_sized);
    if (p == NULL || in_arena(p))
        return;
    (void)align, (void)n;
    NEXT_BOOTSTRAP(free_fn, free);
    real(p);
}

// ---- C++, by mangled name; an exception passes through these frames by their unwind tables ----

#define NEW(symbol, which, parameters, arguments, types, align)                 \
    EXPORT void *symbol parameters                                              \
    {                                                                           \
        NEXT(void *types, #symbol);                                             \
        ENTER(ALLOCATION, n, align, NULL);                                      \
        void *p = real arguments;                                               \
        LEAVE(p != NULL);                                                       \
        if (p != NULL && !internal_)                                            \
            count(COUNT_##which);                                               \
        return p;                                                               \
    }
#define DELETE(symbol, which, parameters, arguments, types)                     \
    EXPORT void symbol parameters                                               \
    {                                                                           \
        NEXT(void types, #symbol);                                              \
        ENTER(RELEASE, 0, 0, p);                                                \
        if (p != NULL && !internal_)                                            \
            count(COUNT_##which);                                               \
        real arguments;                                                         \
        LEAVE(1);                                                               \
    }

NEW(_Znwm, new, (size_t n), (n), (size_t), 0)
NEW(_Znam, new_array, (size_t n), (n), (size_t), 0)
NEW(_ZnwmRKSt9nothrow_t, new_nothrow, (size_t n, const void *t), (n, t), (size_t, const void *), 0)
NEW(_ZnamRKSt9nothrow_t, new_array_nothrow, (size_t n, const void *t), (n, t), (size_t, const void *), 0)
NEW(_ZnwmSt11align_val_t, new_align, (size_t n, size_t a), (n, a), (size_t, size_t), a)
NEW(_ZnamSt11align_val_t, new_array_align, (size_t n, size_t a), (n, a), (size_t, size_t), a)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, new_align_nothrow, (size_t n, size_t a, const void *t), (n, a, t),
    (size_t, size_t, const void *), a)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, new_array_align_nothrow, (size_t n, size_t a, const void *t), (n, a, t),
    (size_t, size_t, const void *), a)

DELETE(_ZdlPv, delete, (void *p), (p), (void *))
DELETE(_ZdaPv, delete_array, (void *p), (p), (void *))
DELETE(_ZdlPvm, delete_size, (void *p, size_t n), (p, n), (void *, size_t))
DELETE(_ZdaPvm, delete_array_size, (void *p, size_t n), (p, n), (void *, size_t))
DELETE(_ZdlPvRKSt9nothrow_t, delete_nothrow, (void *p, const void *t), (p, t), (void *, const void *))
DELETE(_ZdaPvRKSt9nothrow_t, delete_array_nothrow, (void *p, const void *t), (p, t), (void *, const void *))
DELETE(_ZdlPvSt11align_val_t, delete_align, (void *p, size_t a), (p, a), (void *, size_t))
DELETE(_ZdaPvSt11align_val_t, delete_array_align, (void *p, size_t a), (p, a), (void *, size_t))
DELETE(_ZdlPvmSt11align_val_t, delete_size_align, (void *p, size_t n, size_t a), (p, n, a), (void *, size_t, size_t))
DELETE(_ZdaPvmSt11align_val_t, delete_array_size_align, (void *p, size_t n, size_t a), (p, n, a), (void *, size_t, size_t))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, delete_align_nothrow, (void *p, size_t a, const void *t), (p, a, t),
       (void *, size_t, const void *))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, delete_array_align_nothrow, (void *p, size_t a, const void *t), (p, a, t),
       (void *, size_t, const void *))
