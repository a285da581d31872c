// flags: -pthread
// run: 1 1
// run: 3 1
// expect: live fn=site_0 count=0
// expect: live fn=site_9 count=0
// Blocks whose lifetimes this program knows, at a call site for each.
//
//     lifetimes THREADS ROUNDS
//
// Of each round and of each of `events`, a block is freed so many events of its thread after it was allocated: what lies between are pairs of
// a malloc and a free, and if one event is left, a realloc. `site_slept` has blocks during which the thread sleeps for 30 ms. Several threads
// do all of this at once.
#include "victim.h"

static const long events[] = { 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 100000 };
enum { SITES = sizeof events / sizeof *events, THREADS_MAX = 64 };

#define SITE(n) CALL_SITE void *site_##n(void) { return opaque(malloc(24)); }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) SITE(8) SITE(9) SITE(filler) SITE(slept)
static void *(*const sites[SITES])(void) = { site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7, site_8, site_9 };

static long rounds;

static void pass(void **moving, long count)
{
    for (long i = 0; i < count / 2; i++)
        free(site_filler());
    if (count % 2)
        CHECK((*moving = opaque(realloc(*moving, 40))) != NULL);
}

static void *work(void *unused)
{
    void *moving = opaque(malloc(40));
    CHECK(moving != NULL);
    for (long round = 0; round < rounds; round++) {
        for (int site = 0; site < SITES; site++) {
            void *p = sites[site]();
            pass(&moving, events[site] - 1);
            free(p);
        }
        void *p = site_slept();
        nanosleep(&(struct timespec){ .tv_nsec = 30 * 1000 * 1000 }, NULL);
        free(p);
    }
    free(moving);
    return unused;
}

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 1);
    rounds = arg_number(argc, argv, 2, 1);
    CHECK(count >= 1 && count <= THREADS_MAX);
    pthread_t others[THREADS_MAX];
    for (long i = 1; i < count; i++)
        CHECK(pthread_create(&others[i], NULL, work, NULL) == 0);
    work(NULL);
    for (long i = 1; i < count; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
    return 0;
}
