// flags: -pthread
// run: 1 2000 1
// run: 4 500 2
// stress: 8 2000 3
// expect: live fn=site_0 count=0
// expect: live fn=site_7 count=0
// A heap that is fullest at a moment that this program knows, with what lived then, and what was ever asked for, at eight call sites.
//
//     planted_peak THREADS STEPS SEED
//
// One thread allocates, frees and moves blocks at random, and notes what lives at each site whenever more bytes live than ever before. Several
// do the same between barriers; at some of these, where all stand still, one allocates a huge block, larger each time: that is the peak. Huge
// blocks before and after it are handed to other threads, which free them. Each site has sizes of its own, and in the end there is a line for
// each: its number, bytes and blocks at the peak, bytes and blocks in all, temporary blocks. A block is temporary if its free is the
// next thing that its thread does.
#include "victim.h"

enum { SITES = 8, THREADS_MAX = 64, SLOTS = 192, ROUNDS = 3 };

#define SITE(n)                                                                 \
    CALL_SITE void *site_##n(void *old, size_t size)                            \
    {                                                                           \
        return opaque(old == NULL ? malloc(size) : realloc(old, size));         \
    }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
static void *(*const sites[SITES])(void *, size_t) = { site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7 };

struct block { void *p; size_t size; long id; int site; };
struct figures { long blocks, bytes; };
static struct thread {
    struct block slots[SLOTS], huge;
    struct figures live[SITES], all[SITES];
    long temporary[SITES];
    long last, ids; // the block that its last event gave, and the last that it had
    uint32_t random;
} threads[THREADS_MAX] __attribute__((aligned(64)));
static long count, steps;
static struct figures at_peak[SITES];
static long most;
static pthread_barrier_t barrier;

static struct thread *of(long i) { return &threads[i % count]; }

static void notes(struct thread *t, struct block b, int sign)
{
    t->live[b.site].blocks += sign;
    t->live[b.site].bytes += sign * (long)b.size;
}

static void note_peak(void);

static void begins(struct thread *t, struct block *b, int site, size_t size)
{
    struct block old = *b;
    if (old.p != NULL) {
        t->temporary[old.site] += old.id == t->last;
        notes(t, old, -1);
    }
    t->last = t->ids += THREADS_MAX;
    *b = (struct block){ sites[site](old.p, size), size, t->last, site };
    CHECK(b->p != NULL);
    t->all[site].blocks++;
    t->all[site].bytes += size;
    notes(t, *b, 1);
    if (count == 1)
        note_peak();
}

static void ends(struct thread *t, struct block *b)
{
    if (b->p == NULL)
        return;
    t->temporary[b->site] += b->id == t->last;
    t->last = 0;
    notes(t, *b, -1);
    free(b->p);
    b->p = NULL;
}

// What lives now, of all threads: a block may be freed by another than the one that has it in its figures.
static long live(struct figures now[SITES])
{
    long bytes = 0;
    memset(now, 0, SITES * sizeof *now);
    for (long i = 0; i < count; i++)
        for (int s = 0; s < SITES; s++) {
            now[s].blocks += threads[i].live[s].blocks;
            now[s].bytes += threads[i].live[s].bytes;
            bytes += threads[i].live[s].bytes;
        }
    return bytes;
}

static void note_peak(void)
{
    struct figures now[SITES];
    long bytes = live(now);
    if (bytes > most) {
        most = bytes;
        memcpy(at_peak, now, sizeof now);
    }
}

// Sizes of a site are its number, and multiples of 8 above that.
static size_t size_of(int site, uint32_t random) { return site + 8 * (1 + random % (site == 7 ? 4000 : 40)); }

static void at_random(struct thread *t, long how_many)
{
    for (long i = 0; i < how_many; i++) {
        uint32_t random = next_random(&t->random);
        struct block *b = &t->slots[random % SLOTS];
        int site = (random >> 8) % SITES;
        size_t size = size_of(site, random >> 12);
        switch (random >> 28) {
        case 0: case 1: case 2:
            ends(t, b);
            break;
        case 3: case 4: // a temporary one
            ends(t, b);
            begins(t, b, site, size);
            ends(t, b);
            break;
        case 5: case 6:
            begins(t, b, site, size); // moves it, if there is one
            break;
        default:
            ends(t, b);
            begins(t, b, site, size);
        }
    }
}

static void wait_for_all(void) { pthread_barrier_wait(&barrier); }

static void *work(void *arg)
{
    long me = (long)arg;
    struct thread *t = &threads[me];
    for (int round = 0; round < ROUNDS; round++) {
        at_random(t, steps);
        begins(t, &t->huge, me % SITES, (16 << 20) + me);
        wait_for_all();
        ends(t, &of(me + 1)->huge); // handed on, and gone before the peak
        for (int i = 0; i < SLOTS; i += 3)
            ends(t, &of(me + 1)->slots[i]);
        wait_for_all();
        if (me == 0) {
            begins(t, &t->huge, 0, ((size_t)count * 32 + 64 + 16 * round) << 20);
            note_peak();
        }
        wait_for_all();
        if (me == count - 1)
            ends(t, &threads[0].huge); // another one than the one that has allocated it
        wait_for_all();
        for (int i = 1; i < SLOTS; i += 3)
            ends(t, &of(me + 1)->slots[i]);
        begins(t, &t->huge, me % SITES, (24 << 20) + me);
        wait_for_all();
        ends(t, &of(me + 1)->huge); // handed on, and both after the peak
        wait_for_all();
    }
    for (int i = 0; i < SLOTS; i++)
        ends(t, &t->slots[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    count = arg_number(argc, argv, 1, 1);
    steps = arg_number(argc, argv, 2, 2000);
    CHECK(count >= 1 && count <= THREADS_MAX);
    for (long i = 0; i < count; i++)
        threads[i].ids = i, threads[i].random = arg_number(argc, argv, 3, 1) * 2654435761u + i * 7919 + 1;
    if (count == 1) {
        at_random(&threads[0], steps);
        for (int i = 0; i < SLOTS; i += 2)
            ends(&threads[0], &threads[0].slots[i]);
        at_random(&threads[0], steps);
        for (int i = 0; i < SLOTS; i++)
            ends(&threads[0], &threads[0].slots[i]);
    } else {
        pthread_t others[THREADS_MAX];
        CHECK(pthread_barrier_init(&barrier, NULL, count) == 0);
        for (long i = 1; i < count; i++)
            CHECK(pthread_create(&others[i], NULL, work, (void *)i) == 0);
        work((void *)0L);
        for (long i = 1; i < count; i++)
            CHECK(pthread_join(others[i], NULL) == 0);
    }
    for (int s = 0; s < SITES; s++) {
        struct figures all = { 0, 0 };
        long temporary = 0;
        for (long i = 0; i < count; i++) {
            all.blocks += threads[i].all[s].blocks;
            all.bytes += threads[i].all[s].bytes;
            temporary += threads[i].temporary[s];
        }
        printf("%d %ld %ld %ld %ld %ld\n", s, at_peak[s].bytes, at_peak[s].blocks, all.bytes, all.blocks, temporary);
    }
    return 0;
}
