// flags: -pthread
// stress: 5000
// expect: live fn=kept_block kind=malloc count=400000 bytes=100000000
// expect: live fn=other_block count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// A program that limits its own address space to 1 GiB, in each of the ways there are, while three threads allocate, and then has
// 100 MB of live blocks, in threads too (ARG1 blocks in each of four). A forked child limits itself to 512 MiB, a vforked one only itself. What is refused is
// refused as ever.
#include "later_blocks.h"
#include <sys/resource.h>
#include <sys/syscall.h>

enum { THREADS = 4 };
static long blocks;
static const rlim_t gib = 1 << 30;
static volatile int done;

CALL_SITE char *kept_block(void) { return (char *)opaque(malloc(250)); }
CALL_SITE char *other_block(size_t n) { return (char *)opaque(malloc(n)); }

static void *keeps(void *next)
{
    for (long i = 0; i < blocks; i++) {
        char *block = kept_block();
        CHECK(block != NULL);
        *(void **)block = next;
        next = block;
    }
    return next;
}

static void *churns(void *ignored)
{
    (void)ignored;
    char *blocks[500] = {0};
    for (long i = 0; !done; i++) {
        free(blocks[i % 500]);
        CHECK((blocks[i % 500] = other_block(16 + i % 3000)) != NULL);
        *blocks[i % 500] = 1;
    }
    for (int i = 0; i < 500; i++)
        free(blocks[i]);
    return NULL;
}

static int limit(int way, rlim_t soft)
{
    struct rlimit limits = {soft, RLIM_INFINITY};
    struct rlimit64 limits64 = {soft, RLIM64_INFINITY};
    switch (way % 6) {
    case 0: return setrlimit(RLIMIT_AS, &limits);
    case 1: return setrlimit64(RLIMIT_AS, &limits64);
    case 2: return prlimit(0, RLIMIT_AS, &limits, NULL);
    case 3: return prlimit64(getpid(), RLIMIT_AS, &limits64, NULL);
    case 4: return (int)syscall(SYS_setrlimit, RLIMIT_AS, &limits);
    default: return (int)syscall(SYS_prlimit64, 0, RLIMIT_AS, &limits, NULL);
    }
}

static void refused(void)
{
    struct rlimit wrong = {2, 1}, old;
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, &wrong) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, opaque((void *)8)) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(prlimit(0, RLIMIT_AS, opaque((void *)-8), NULL) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(syscall(SYS_setrlimit, 1000, &wrong) == -1 && errno == EINVAL);
    CHECK(prlimit(0, RLIMIT_AS, NULL, &old) == 0 && old.rlim_cur == gib);
    errno = 0;
    CHECK(opaque(malloc(gib)) == NULL && errno == ENOMEM);
    errno = 77;
    CHECK(setrlimit(RLIMIT_AS, &old) == 0 && errno == 77);
}

static void children(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(limit(0, gib / 2) == 0);
        for (int i = 0; i < 1000; i++)
            CHECK(other_block(100000) != NULL);
        _exit(3);
    }
    reap(child, 3);
    // It shares the memory of its parent, which is limited to what it was.
    child = vfork();
    if (child == 0) {
        struct rlimit little = {gib / 4, gib / 4};
        _exit(setrlimit(RLIMIT_AS, &little) == 0 ? 4 : 5);
    }
    reap(child, 4);
}

int main(int argc, char **argv)
{
    blocks = arg_number(argc, argv, 1, 100000);
    pthread_t threads[THREADS];
    void *kept[THREADS];
    for (int i = 0; i < THREADS - 1; i++)
        CHECK(pthread_create(&threads[i], NULL, churns, NULL) == 0);
    for (int way = 0; way < 60; way++) {
        CHECK(limit(way, RLIM_INFINITY) == 0);
        CHECK(limit(way, gib) == 0);
        free(other_block(300000));
    }
    done = 1;
    for (int i = 0; i < THREADS - 1; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    refused();
    children();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, keeps, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], &kept[i]) == 0 && kept[i] != NULL);
    later_blocks();
    printf("limited\n");
    return 0;
}
