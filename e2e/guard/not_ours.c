// Frees of blocks that the ledger knows nothing of, or no longer: other allocators' memory, and what passed by. Nothing is to be reported.
// Built without us in mind: it has an allocator of its own, calls glibc by other names, frees in signal handlers and forked children.
#include "../../victims/victim.h"

EXTERN_C void *__libc_malloc(size_t bytes);
EXTERN_C void __libc_free(void *block);

static void *volatile kept[64];

static void handler(int number)
{
    (void)number;
    // In the middle of an allocation, perhaps: which no program may do, and some do.
    int saved = errno;
    for (int i = 0; i < 8; i++) {
        free(kept[i]);
        kept[i] = malloc(100);
    }
    errno = saved;
}

CALL_SITE void by_other_names(void)
{
    for (int i = 0; i < 1000; i++) {
        void *block = opaque(malloc(200));
        free(block);
        // The same memory, of which we are not told.
        block = opaque(__libc_malloc(200));
        free(block);
        block = opaque(malloc(200));
        __libc_free(block);
        block = opaque(__libc_malloc(200));
        void *grown = realloc(block, 300);
        CHECK(grown != NULL);
        free(grown);
    }
}

CALL_SITE void in_handlers(void)
{
    signal(SIGUSR1, handler);
    for (int i = 0; i < 200; i++) {
        raise(SIGUSR1);
        free(opaque(malloc(100)));
    }
    for (int i = 0; i < 8; i++)
        free(kept[i]);
}

CALL_SITE void in_children(void)
{
    void *block = opaque(malloc(300));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        free(block);
        free(opaque(malloc(300)));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    free(block);
}

static void *churns(void *from)
{
    uint32_t random = (uint32_t)(uintptr_t)from;
    void *own[32] = {0};
    for (int i = 0; i < 20000; i++) {
        unsigned at = next_random(&random) % 32;
        switch (next_random(&random) % 3) {
        case 0:
            free(own[at]);
            own[at] = malloc(next_random(&random) % 2000);
            break;
        case 1: own[at] = realloc(own[at], 1 + next_random(&random) % 3000); break;
        default: {
            // From thread to thread.
            void *other = __atomic_exchange_n(&kept[at], own[at], __ATOMIC_ACQ_REL);
            own[at] = other;
        }
        }
    }
    for (int i = 0; i < 32; i++)
        free(own[i]);
    return NULL;
}

int main(int count, char **words)
{
    CHECK(count == 2);
    if (strcmp(words[1], "names") == 0) {
        by_other_names();
    } else if (strcmp(words[1], "handlers") == 0) {
        in_handlers();
    } else if (strcmp(words[1], "children") == 0) {
        in_children();
    } else {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, churns, (void *)(i * 7919 + 1)) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        for (int i = 0; i < 64; i++)
            free(kept[i]);
    }
    return 0;
}
