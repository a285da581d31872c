// Shared by the victims: self-checks, and ways to keep the compiler from removing or moving an allocation.
#ifndef VICTIM_H
#define VICTIM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#define EXTERN_C extern "C"
#else
#define EXTERN_C
#endif

// noipa: no inlining, no clone with another name, no merging; `fn=` in an expectation needs exactly this symbol.
#define CALL_SITE EXTERN_C __attribute__((noipa))

#define CHECK(cond)                                                                     \
    do {                                                                                \
        if (!(cond)) {                                                                  \
            fprintf(stderr, "FAIL %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #cond, errno); \
            _exit(1);                                                                   \
        }                                                                               \
    } while (0)

// The compiler may delete an unused malloc; a value that went through an empty asm may not be reasoned about.
static inline __attribute__((always_inline, unused)) void *opaque(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}
static inline __attribute__((always_inline, unused)) size_t opaque_size(size_t n)
{
    __asm__ volatile("" : "+r"(n));
    return n;
}

// A small generator of our own: rand() takes a lock and its sequence belongs to libc.
static inline __attribute__((unused)) uint32_t next_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static inline __attribute__((unused)) long arg_number(int argc, char **argv, int index, long otherwise)
{
    return argc > index ? atol(argv[index]) : otherwise;
}

// Path of a file that lies beside the running executable.
static __attribute__((unused)) const char *beside(const char *name)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = 0;
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL && strlen(name) < (size_t)(path + sizeof path - slash - 2));
    strcpy(slash + 1, name);
    return path;
}

// Reaps CHILD; its way of ending must be a plain exit with STATUS.
static __attribute__((unused)) void reap(pid_t child, int status)
{
    int got = 0;
    pid_t r;
    do
        r = waitpid(child, &got, 0);
    while (r < 0 && errno == EINTR);
    CHECK(r == child);
    if (!WIFEXITED(got) || WEXITSTATUS(got) != status)
        fprintf(stderr, "child status 0x%x, wanted exit %d\n", got, status);
    CHECK(WIFEXITED(got) && WEXITSTATUS(got) == status);
}

// Stands still until somebody who looked has written a byte; allocates nothing. At the end of its input it goes on.
static inline __attribute__((unused)) void hold(void)
{
    char byte = '.';
    CHECK(write(STDOUT_FILENO, &byte, 1) == 1);
    CHECK(read(STDIN_FILENO, &byte, 1) >= 0);
}

#endif
