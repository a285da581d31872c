// flags: -pthread
// run:
// run: 1
// stress: 2 5
// stress: 1 5
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=borrowed count=0
// At most ARG1 arenas (default 2) for ARG2 times (default 25) eight short threads that leave blocks to each other: malloc_info counts no more, and when
// all is freed mallinfo2 is back at where it was, malloc_trim gives back, and nothing is left in caches of threads that ended.
// mallopt's other limits are taken, and mean what they say.
#include "later_blocks.h"

enum { THREADS = 8, BLOCKS = 200 };
static void *volatile shared[THREADS][BLOCKS];
static pthread_barrier_t barrier;

CALL_SITE void *borrowed(size_t n) { return opaque(malloc(n)); }

static void *work(void *arg)
{
    intptr_t own = (intptr_t)arg, next = (own + 1) % THREADS;
    uint32_t seed = (uint32_t)own + 1;
    for (int i = 0; i < BLOCKS; i++) {
        size_t n = 16 + next_random(&seed) % 3000;
        unsigned char *p = borrowed(n);
        CHECK(p != NULL);
        memset(p, (int)own, n);
        shared[own][i] = p;
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = shared[next][i];
        CHECK(p[0] == next && p[15] == next);
        free(p);
    }
    return NULL;
}

static int arenas(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    CHECK(out != NULL && malloc_info(0, out) == 0 && fclose(out) == 0);
    int count = 0;
    for (char *at = text; (at = strstr(at, "<heap nr=")) != NULL; at++)
        count++;
    CHECK(strstr(text, "</malloc>") != NULL);
    free(text);
    return count;
}

int main(int argc, char **argv)
{
    int most = (int)arg_number(argc, argv, 1, 2);
    long rounds = arg_number(argc, argv, 2, 25);
    CHECK(mallopt(M_ARENA_MAX, most) == 1 && mallopt(M_ARENA_TEST, 1) == 1);
    // No mapped blocks: all of it counts in arenas.
    CHECK(mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, 64 << 10) == 1 && mallopt(M_TOP_PAD, 0) == 1);
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    size_t after_first = 0;
    for (long round = 0; round < rounds; round++) {
        pthread_t t[THREADS];
        for (intptr_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(t[i], NULL) == 0);
        CHECK(arenas() <= most);
        struct mallinfo2 m = mallinfo2();
        CHECK(m.hblks == 0 && m.hblkhd == 0 && m.uordblks <= m.arena && m.fordblks <= m.arena);
        if (round == 1)
            after_first = m.uordblks;
        // A round is more than two MiB. What threads need themselves is kept for the next ones.
        CHECK(round < 2 || m.uordblks <= after_first + (512 << 10));
    }
    char *large = opaque(malloc(1 << 20));
    CHECK(large != NULL && mallinfo2().hblks == 0);
    free(large);
    CHECK(malloc_trim(0) >= 0);
    CHECK(mallopt(M_MMAP_MAX, 10) == 1 && mallopt(M_MMAP_THRESHOLD, 100000) == 1);
    large = opaque(malloc(64 << 20));
    CHECK(mallinfo2().hblks == 1 && mallinfo2().hblkhd >= 64 << 20 && malloc_usable_size(large) >= 64 << 20);
    free(large);
    CHECK(mallinfo2().hblks == 0);
    later_blocks();
    printf("%s\n", arenas() <= most ? "few arenas" : "many arenas");
    return 0;
}
