// What a program may do to its memory, and ask of it, however its blocks are guarded: each case says the same at every level.
#define _GNU_SOURCE
#include "../../victims/victim.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

static long kib_of(const char *name)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtol(line + strlen(name), NULL, 10);
    }
    fclose(status);
    return kib;
}

// Some blocks of all kinds, held and freed and held again.
static void works(void)
{
    enum { COUNT = 3000 };
    static char *blocks[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            size_t bytes = (size_t)(i * 7 % 300);
            blocks[i] = i % 5 == 0 ? calloc(1, bytes) : i % 11 == 0 ? aligned_alloc(64, 64 * (size_t)(i % 3 + 1)) : malloc(bytes);
            CHECK(blocks[i] != NULL);
            if (i % 5 == 0)
                for (size_t at = 0; at < bytes; at++)
                    CHECK(blocks[i][at] == 0);
            memset(blocks[i], round, i % 11 == 0 && i % 5 != 0 ? 64 : bytes);
        }
        for (int i = 0; i < COUNT; i += 2) {
            blocks[i] = realloc(blocks[i], 200);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], round, 200);
        }
        for (int i = 0; i < COUNT; i++)
            free(blocks[i]);
    }
}

// What is locked is made real: that must not be the addresses that were set aside for blocks.
static void locked(void)
{
    works();
    int done = mlockall(MCL_CURRENT) == 0;
    CHECK(!done || kib_of("VmRSS:") < 400 << 10);
    works();
    if (done)
        munlockall();
    works();
}

// The program takes as many mappings as a process may have, all but a third.
static void mappings(void)
{
    enum { COUNT = 40000 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        CHECK((blocks[i] = malloc(20)) != NULL);
    for (int i = 0; i < 20000; i++) {
        int access = i % 2 != 0 ? PROT_READ : PROT_READ | PROT_WRITE;
        CHECK(mmap(NULL, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    }
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    works();
}

// Sizes and alignments that are odd.
static void odd(void)
{
    void *block = NULL;
    for (size_t alignment = 16; alignment <= 2 << 20; alignment *= 2) {
        CHECK(posix_memalign(&block, alignment, 5000) == 0 && (uintptr_t)block % alignment == 0);
        memset(block, 1, 5000);
        CHECK(malloc_usable_size(block) >= 5000);
        free(block);
    }
    char *large = malloc(1u << 30);
    CHECK(large != NULL);
    large[0] = large[(1u << 30) - 1] = 1;
    large = realloc(large, 1u << 20);
    CHECK(large != NULL && large[0] == 1);
    free(large);
    CHECK(malloc(opaque_size((size_t)1 << 60)) == NULL && calloc(opaque_size((size_t)1 << 40), 1 << 30) == NULL);
    for (int i = 0; i < 1000; i++) {
        void *none = malloc(opaque_size(0));
        CHECK(none != NULL);
        none = realloc(none, 1);
        CHECK(none != NULL);
        free(none);
    }
    works();
}

// A core dump has what was used, and nothing of what was only set aside.
static void dumped(void)
{
    char line[512];
    long kib = 0, all = 0;
    works();
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strncmp(line, "Size:", 5) == 0)
            kib = strtol(line + 5, NULL, 10);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd") == NULL)
            all += kib;
    }
    fclose(maps);
    CHECK(all < 4 << 20);
}

static void *frees(void *block)
{
    free(block);
    return NULL;
}

static pthread_key_t key;
static void at_end(void *block) { free(block); }
static void *with_key(void *block)
{
    pthread_setspecific(key, block);
    return NULL;
}

// Hundreds of threads, which end while their keys have blocks; blocks that others free.
static void threads(void)
{
    pthread_key_create(&key, at_end);
    for (int round = 0; round < 10; round++) {
        pthread_t all[60];
        for (int i = 0; i < 60; i++)
            CHECK(pthread_create(&all[i], NULL, i % 2 != 0 ? frees : with_key, malloc(100)) == 0);
        for (int i = 0; i < 60; i++)
            pthread_join(all[i], NULL);
    }
    works();
}

static char *late;
static void after_exit(void) { free(late); }

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"plain", works}, {"locked", locked}, {"mappings", mappings}, {"odd", odd}, {"dumped", dumped}, {"threads", threads}};
    late = malloc(10);
    atexit(after_exit);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (count == 1)
            printf("%s\n", cases[i].name);
        else if (strcmp(words[1], cases[i].name) == 0)
            cases[i].run();
    }
    puts("done");
    return 0;
}
