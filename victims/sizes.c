// shared-object: libsizes.so
// flags: -shared -fPIC -O2 -fno-builtin -ftls-model=initial-exec -fvisibility=hidden -ldl
// A second counting library for the tests, next in line behind the tracker: how often each size was asked for.
//     LD_PRELOAD="tracker.so:libsizes.so" SIZES_OUT=/tmp/sizes program
// SIZES_OUT is mapped shared and holds one number of 8 bytes for each size below a megabyte: calls of malloc, calloc and realloc that
// gave a block of it. So it survives any end, and tells the call sites of a program apart that ask for a size each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { SIZES = 1 << 20 };

static uint64_t *table;

__attribute__((constructor)) static void set_up(void)
{
    const char *path = getenv("SIZES_OUT");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, SIZES * sizeof *table) != 0)
        return;
    void *mapped = mmap(NULL, SIZES * sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        __atomic_store_n(&table, (uint64_t *)mapped, __ATOMIC_RELEASE);
}

static void *counted(void *block, size_t size)
{
    uint64_t *sizes = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (block != NULL && sizes != NULL && size < SIZES)
        __atomic_fetch_add(&sizes[size], 1, __ATOMIC_RELAXED);
    return block;
}

// glibc's own names: nothing has to be looked up, which could allocate.
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

EXPORT void *malloc(size_t size) { return counted(__libc_malloc(size), size); }
EXPORT void *calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size), count * size); }
EXPORT void *realloc(void *block, size_t size) { return counted(__libc_realloc(block, size), size); }
