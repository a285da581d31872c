/* What heaps have, by the ledger, of an allocator that tells of its blocks. Its first argument says which test; it ends with 0 if all
   is as it should be. */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#define HEAPLEDGER_STDIO
#include "arena.h"
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(1); } } while (0)
#define EVERYTHING 31u
enum { RANGE = 1 << 16, FAST = 1, DMA = 2, LARGE = 4, NOBODY = 64 };

static char ranges[8][RANGE] __attribute__((aligned(4096)));
static struct arena arena, other;

static struct heapledger_heap of(int heap) {
    struct heapledger_heap figures;
    figures.size = sizeof figures;
    CHECK(heapledger_heap_figures(heap, &figures) == 0);
    if (figures.known & HEAPLEDGER_KNOWS_TOTAL) {
        CHECK(figures.free_bytes + figures.used_bytes + figures.overhead_bytes == figures.total_bytes);
    }
    return figures;
}

static struct heapledger_heap of_all(unsigned capabilities) {
    struct heapledger_heap figures;
    figures.size = sizeof figures;
    CHECK(heapledger_heaps_figures(capabilities, &figures) == 0);
    if (figures.known & HEAPLEDGER_KNOWS_TOTAL) {
        CHECK(figures.free_bytes + figures.used_bytes + figures.overhead_bytes == figures.total_bytes);
    }
    return figures;
}

static int same_but_for_minima(struct heapledger_heap a, struct heapledger_heap b) {
    a.minimum_free_bytes = b.minimum_free_bytes;
    a.least_free_bytes = b.least_free_bytes;
    return memcmp(&a, &b, sizeof a) == 0;
}

static unsigned draw(void) {
    static unsigned state = 7;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* A1, A2, A3, A5. */
static void fresh_and_one_block(void) {
    struct heapledger_heap before = of(arena.heap), now;
    void *first, *second;
    CHECK(before.heaps == 1 && before.known == EVERYTHING && before.late_heaps == 0);
    CHECK(before.used_blocks == 0 && before.used_bytes == 0 && before.free_blocks == 1 && before.total_bytes == RANGE);
    CHECK(before.free_bytes == before.minimum_free_bytes && before.free_bytes == before.least_free_bytes);
    CHECK(before.largest_free_bytes == RANGE - ARENA_PIECE);

    first = arena_alloc(&arena, 32);
    now = of(arena.heap);
    CHECK(now.used_blocks == 1 && now.used_bytes == 32);
    CHECK(now.minimum_free_bytes < before.minimum_free_bytes && now.minimum_free_bytes > 0);
    arena_free(&arena, first);
    CHECK(of(arena.heap).minimum_free_bytes == now.minimum_free_bytes && same_but_for_minima(of(arena.heap), before));

    first = arena_alloc(&arena, before.largest_free_bytes);
    CHECK(first && of(arena.heap).largest_free_bytes == 0 && of(arena.heap).free_bytes == 0);
    CHECK(of(arena.heap).minimum_free_bytes == 0);
    arena_free(&arena, first);
    CHECK(same_but_for_minima(of(arena.heap), before) && of(arena.heap).minimum_free_bytes == 0);

    first = arena_alloc(&arena, 128);
    second = arena_alloc(&arena, 32);
    CHECK(of(arena.heap).used_blocks == 2);
    arena_free(&arena, first);
    CHECK(of(arena.heap).free_blocks == 2 && arena_alloc(&arena, 64) == first);
    arena_free(&arena, first);
    arena_free(&arena, second);
    CHECK(same_but_for_minima(of(arena.heap), before));
}

/* A4, A11: the identity is looked at by `of`, the largest block at each step. */
static void full_and_random(void) {
    static void *blocks[RANGE / 32 + 1];
    struct heapledger_heap before = of(arena.heap), now;
    size_t count = 0, index, step;
    blocks[0] = arena_alloc(&arena, 100);
    CHECK(before.free_bytes - of(arena.heap).free_bytes > 100 && of(arena.heap).overhead_bytes == 12 + ARENA_PIECE);
    arena_free(&arena, blocks[0]);
    while ((blocks[count] = arena_alloc(&arena, 1)) != NULL) count++;
    now = of(arena.heap);
    CHECK(count == RANGE / 32 && now.free_bytes == 0 && now.used_blocks == count && now.used_bytes == count);
    while (count > 0) {
        index = draw() % count;
        arena_free(&arena, blocks[index]);
        blocks[index] = blocks[--count];
        if (count % 64 == 0) of(arena.heap);
    }
    CHECK(same_but_for_minima(of(arena.heap), before));

    memset(blocks, 0, sizeof blocks);
    for (step = 0; step < 3000; step++) {
        index = draw() % 64;
        if (!blocks[index]) {
            blocks[index] = arena_alloc(&arena, 1 + draw() % 2000);
        } else if (draw() % 3 == 0) {
            arena_resize(&arena, blocks[index], 1 + draw() % 2000);
        } else {
            arena_free(&arena, blocks[index]);
            blocks[index] = NULL;
        }
        if (step % 10 == 0) {
            void *largest;
            now = of(arena.heap);
            CHECK(now.known == EVERYTHING && now.minimum_free_bytes <= now.free_bytes);
            CHECK(now.largest_free_bytes == 0 || (largest = arena_alloc(&arena, now.largest_free_bytes)) != NULL);
            if (now.largest_free_bytes) arena_free(&arena, largest);
            CHECK(arena_alloc(&arena, now.largest_free_bytes + 1) == NULL);
        }
    }
    for (index = 0; index < 64; index++) arena_free(&arena, blocks[index]);
    CHECK(same_but_for_minima(of(arena.heap), before));
}

/* A6. */
static void watch(void) {
    void *block = arena_alloc(&arena, 5000), *small;
    struct heapledger_heap start, now;
    size_t lifetime;
    arena_free(&arena, block);
    lifetime = of(arena.heap).minimum_free_bytes;
    CHECK(heapledger_minimum_watch_stop() == HEAPLEDGER_E_NOT_SO);
    CHECK(heapledger_minimum_watch_start() == 0);
    start = of(arena.heap);
    CHECK(start.minimum_free_bytes == start.free_bytes && start.minimum_free_bytes > lifetime);
    CHECK(start.least_free_bytes == lifetime);
    small = arena_alloc(&arena, 400);
    arena_free(&arena, small);
    now = of(arena.heap);
    CHECK(now.minimum_free_bytes <= start.minimum_free_bytes - 400 && now.free_bytes == start.free_bytes);
    CHECK(of_all(FAST).minimum_free_bytes == now.minimum_free_bytes);
    CHECK(heapledger_minimum_watch_start() == 0);
    CHECK(of(arena.heap).minimum_free_bytes == start.minimum_free_bytes);
    CHECK(heapledger_minimum_watch_stop() == 0);
    CHECK(of(arena.heap).minimum_free_bytes == lifetime);
    CHECK(heapledger_minimum_watch_stop() == HEAPLEDGER_E_NOT_SO);
}

static void *begins(void *heap) {
    *(int *)heap = heapledger_heap_begin("at once", ranges[6], RANGE, 0);
    return NULL;
}

/* A7, A8. */
static void later_heaps(void) {
    static const struct { long first, end; int allowed; } table[] = {
        {-0x1000, 0x1000, 0}, {-0x1000, 0x3000, 0}, {0, 0x3000, 0}, {0x1000, 0x3000, 0}, {0, 0x2000, 0},
        {-0x1000, 0, 1}, {0x2000, 0x3000, 1}, {0x800, 0x1000, 1}, {0, 0x400, 1}, {0x1400, 0x2000, 1}
    };
    char *first = ranges[3] + 0x2000;
    struct heapledger_heap fast = of_all(FAST), dma = of_all(DMA);
    int heap = heapledger_heap_begin("there", first, 0x2000, 0), heaps[2], round;
    size_t index;
    pthread_t threads[2];
    CHECK(heap >= 0 && of_all(0).heaps == 2);
    for (index = 0; index < sizeof table / sizeof *table; index++) {
        size_t bytes = (size_t)(table[index].end - table[index].first);
        int begun = heapledger_heap_begin("new", first + table[index].first, bytes, 0);
        CHECK(table[index].allowed ? begun >= 0 : begun == HEAPLEDGER_E_OVERLAPS);
        if (begun >= 0) CHECK(heapledger_heap_end(begun) == 0);
    }
    /* One that is gone is in nobody's way. */
    CHECK(heapledger_heap_end(heap) == 0);
    heap = heapledger_heap_begin("again", first, 0x2000, 0);
    CHECK(heap >= 0 && heapledger_heap_end(heap) == 0);

    CHECK(dma.heaps == 0 && dma.free_bytes == 0 && dma.largest_free_bytes == 0);
    CHECK(arena_begin(&other, "later", ranges[1], RANGE, FAST | DMA) >= 0);
    CHECK(of_all(DMA).heaps == 1 && of_all(DMA).free_bytes == RANGE && of_all(DMA).late_heaps == 1);
    CHECK(of_all(DMA).minimum_free_bytes == 0 && of_all(FAST).minimum_free_bytes == fast.minimum_free_bytes);
    CHECK(of_all(FAST).free_bytes == fast.free_bytes + RANGE && of_all(FAST | DMA).heaps == 1);
    CHECK(of_all(NOBODY).heaps == 0 && of_all(FAST | NOBODY).heaps == 0);
    CHECK(of(other.heap).minimum_free_bytes == RANGE);
    CHECK(heapledger_heap_end(other.heap) == 0 && of_all(DMA).heaps == 0);

    for (round = 0; round < 20; round++) {
        for (index = 0; index < 2; index++) pthread_create(&threads[index], NULL, begins, &heaps[index]);
        for (index = 0; index < 2; index++) pthread_join(threads[index], NULL);
        CHECK((heaps[0] >= 0) != (heaps[1] >= 0));
        CHECK((heaps[0] < 0 ? heaps[0] : heaps[1]) == HEAPLEDGER_E_OVERLAPS);
        CHECK(heapledger_heap_end(heaps[0] < 0 ? heaps[1] : heaps[0]) == 0);
    }
}

static struct heapledger_block at(const void *address) {
    struct heapledger_block block;
    block.size = sizeof block;
    CHECK(heapledger_block_at(address, &block) == 0);
    return block;
}

/* A9. */
static void blocks_of_addresses(void) {
    static const size_t sizes[] = {1035, 1064, 1541};
    struct heapledger_block block;
    size_t index, place;
    block.size = sizeof block;
    for (index = 0; index < 3; index++) {
        size_t bytes = sizes[index];
        char *own = arena_alloc(&arena, bytes), *volatile c = malloc(bytes);
        CHECK(at(own).usable_bytes == arena_rounded(bytes) && at(c).usable_bytes >= bytes);
        for (place = 0; place < bytes; place += bytes / 2) {
            block = at(own + place);
            CHECK(block.address == own && block.bytes == bytes && block.heap == arena.heap && block.is_used);
            CHECK(block.heap_first == ranges[0] && block.heap_bytes == RANGE);
            CHECK(at(c + place).address == c && at(c + place).bytes == bytes && at(c + place).heap == HEAPLEDGER_C_HEAP);
        }
        CHECK(at(own + bytes - 1).address == own && at(own).taken_bytes == arena_rounded(bytes) + ARENA_PIECE);
        CHECK(heapledger_block_at(own - 1, &block) == HEAPLEDGER_E_UNKNOWN);
        arena_free(&arena, own);
        CHECK(heapledger_block_at(own, &block) == HEAPLEDGER_E_UNKNOWN);
        free(c);
    }
    CHECK(heapledger_block_at(&block, &block) == HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_block_at(NULL, &block) == HEAPLEDGER_E_UNKNOWN);
    block.size--;
    CHECK(heapledger_block_at(&block, &block) == HEAPLEDGER_E_TOO_SMALL);
}

/* A heap in a block of another one: an address is the innermost's. */
static void heap_in_a_heap(void) {
    static struct arena inner;
    char *outer = arena_alloc(&arena, 4096), *block, *behind;
    struct heapledger_heap before;
    behind = arena_alloc(&arena, 64);
    before = of(arena.heap);
    CHECK(arena_begin(&inner, "inside", outer, 4096, LARGE) >= 0);
    CHECK(of(inner.heap).free_bytes == 4096);
    block = arena_alloc(&inner, 100);
    CHECK(at(block + 99).heap == inner.heap && at(block + 100 + 28).heap == arena.heap && at(outer).heap == arena.heap);
    CHECK(at(outer).bytes == 4096 && at(behind).heap == arena.heap);
    CHECK(same_but_for_minima(of(arena.heap), before));
    arena_free(&inner, block);
    CHECK(of(inner.heap).free_bytes == 4096 && heapledger_heap_end(inner.heap) == 0);
    arena_free(&arena, outer);
    arena_free(&arena, behind);
}

struct seen {
    size_t blocks, gaps, bytes, stops_after, found;
    const char *last, *marked;
};

static int sees(const struct heapledger_block *block, void *user) {
    struct seen *seen = user;
    CHECK(block->size == sizeof *block);
    if (block->heap_bytes) {
        CHECK((const char *)block->address > seen->last || seen->last > (const char *)block->heap_first + block->heap_bytes);
        seen->last = block->address;
    }
    seen->blocks += block->is_used != 0;
    seen->gaps += block->is_used == 0;
    seen->bytes += block->taken_bytes;
    if (block->address == seen->marked) {
        CHECK(block->is_used && block->bytes == 16);
        seen->found++;
    }
    /* No lock is held. */
    free(malloc(100));
    arena_free(&arena, arena_alloc(&arena, 1));
    return seen->stops_after == 0 || --seen->stops_after > 0;
}

/* A10. */
static void walks(void) {
    struct seen seen, nothing;
    char *blocks[3];
    struct heapledger_heap figures;
    void *volatile c = malloc(16);
    memset(&nothing, 0, sizeof nothing);
    CHECK(arena_begin(&other, "other", ranges[1], RANGE, FAST) >= 0);
    blocks[0] = arena_alloc(&other, 16);
    blocks[1] = arena_alloc(&other, 16);
    blocks[2] = arena_alloc(&other, 16);
    arena_free(&other, blocks[0]);
    figures = of(other.heap);

    seen = nothing;
    seen.marked = blocks[1];
    CHECK(heapledger_heap_walk(other.heap, sees, &seen) == 0);
    CHECK(seen.found == 1 && seen.blocks == 2 && seen.gaps == 2 && seen.bytes == RANGE);
    CHECK(seen.blocks == figures.used_blocks && seen.gaps == figures.free_blocks);

    /* What lies in the range is nobody's affair: headers can be what they like. */
    memset(blocks[1] - ARENA_PIECE, 0xff, ARENA_PIECE);
    seen = nothing;
    CHECK(heapledger_heap_walk(other.heap, sees, &seen) == 0 && seen.blocks == 2);

    /* Told to stop, it goes on with the next heap. */
    seen = nothing;
    seen.stops_after = 1;
    CHECK(heapledger_heap_walk(other.heap, sees, &seen) == 0 && seen.blocks + seen.gaps == 1);
    seen = nothing;
    CHECK(heapledger_heaps_walk(FAST, sees, &seen) == 0 && seen.blocks == 2 && seen.gaps == 3 && seen.bytes == 2 * RANGE);
    seen = nothing;
    seen.stops_after = 1;
    CHECK(heapledger_heaps_walk(FAST, sees, &seen) == 0 && seen.blocks + seen.gaps > 1);

    seen = nothing;
    seen.marked = c;
    CHECK(heapledger_heap_walk(HEAPLEDGER_C_HEAP, sees, &seen) == 0 && seen.found == 1 && seen.gaps == 0);
    CHECK(heapledger_heap_walk(1000, sees, &seen) < 0 && heapledger_heap_walk(0, sees, &seen) == HEAPLEDGER_E_UNKNOWN);
    heapledger_freed(blocks[1], 0);
    heapledger_freed(blocks[2], 0);
    CHECK(heapledger_heap_end(other.heap) == 0);
    CHECK(heapledger_heap_walk(other.heap, sees, &seen) == HEAPLEDGER_E_UNKNOWN);
    free(c);
}

/* A12: what cannot be had leaves all as it was. */
static void impossible_blocks(void) {
    struct heapledger_heap before = of(arena.heap);
    void *volatile none;
    volatile size_t half = SIZE_MAX / 2 + 4, most = SIZE_MAX - 1;
    CHECK(!arena_alloc(&arena, 0) && !arena_alloc(&arena, SIZE_MAX) && !arena_alloc(&arena, SIZE_MAX - 7));
    CHECK(!arena_alloc(&arena, before.free_bytes - 1));
    CHECK(same_but_for_minima(of(arena.heap), before));
    CHECK(of(arena.heap).minimum_free_bytes == before.minimum_free_bytes);
    CHECK(!(none = calloc(half, 2)) && !(none = malloc(most)));
    CHECK(heapledger_allocated(arena.heap, NULL, 5, 0) == HEAPLEDGER_E_INVALID);
}

/* A12: a block lies as it was asked for, with what it was asked for in the ledger; or there is none. */
static void alignments(void) {
    size_t alignment;
    int count = 0;
    for (alignment = 0; alignment <= 1024; alignment++) {
        int is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
        void *blocks[3] = {NULL, NULL, NULL};
        int refused = posix_memalign(&blocks[0], alignment, 100), index;
        CHECK((refused == 0) == (is_power && alignment >= sizeof(void *)) && (refused == 0) == (blocks[0] != NULL));
        blocks[1] = aligned_alloc(alignment, 101);
        blocks[2] = memalign(alignment, 102);
        CHECK(!is_power || (blocks[1] && blocks[2]));
        for (index = 0; index < 3; index++) {
            if (!blocks[index]) continue;
            CHECK(!is_power || (uintptr_t)blocks[index] % alignment == 0);
            CHECK(at(blocks[index]).address == blocks[index] && at(blocks[index]).bytes == 100u + (unsigned)index);
            CHECK(at(blocks[index]).kind == (index == 0 ? HEAPLEDGER_KIND_POSIX_MEMALIGN : index == 1 ? HEAPLEDGER_KIND_ALIGNED_ALLOC : HEAPLEDGER_KIND_MEMALIGN));
            count += is_power;
            free(blocks[index]);
        }
    }
    /* 1 to 1024, of which posix_memalign takes no 1, 2, 4. */
    CHECK(count == 8 + 11 + 11);
}

/* A heap goes while blocks live in it: they stay, and can be freed; its place can be another's. */
static void gone_with_blocks(void) {
    static struct arena again;
    char *first = ranges[4] + 64, *second = ranges[4] + 256;
    struct heapledger_heap figures;
    struct heapledger_block block;
    struct heapledger_resize resize;
    struct seen seen;
    int heap = heapledger_heap_begin("gone", ranges[4], RANGE, LARGE);
    memset(&seen, 0, sizeof seen);
    figures.size = sizeof figures;
    block.size = sizeof block;
    CHECK(heap >= 0 && heapledger_allocated(heap, first, 100, 0) == 0 && heapledger_allocated(heap, second, 200, 0) == 0);
    CHECK(heapledger_heap_end(heap) == 0 && heapledger_heap_end(heap) == HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_heap_figures(heap, &figures) == HEAPLEDGER_E_UNKNOWN && of_all(LARGE).heaps == 0);
    CHECK(heapledger_heap_walk(heap, sees, &seen) == HEAPLEDGER_E_UNKNOWN && seen.blocks == 0);
    CHECK(heapledger_is_live(first) == 1 && heapledger_is_live(second) == 1);
    CHECK(heapledger_block_at(first + 1, &block) == 0 && block.address == first && block.heap == heap && block.heap_bytes == 0);
    /* Whoever comes too late is told so, and nothing is entered: neither there nor in a heap that never was, nor in one of malloc's. */
    CHECK(heapledger_allocated(heap, first + 1000, 1, 0) == HEAPLEDGER_E_UNKNOWN && heapledger_is_live(first + 1000) == 0);
    CHECK(heapledger_allocated(200, first + 1000, 1, 0) == HEAPLEDGER_E_UNKNOWN && heapledger_is_live(first + 1000) == 0);
    CHECK(heapledger_allocated(1000, first + 1000, 1, 0) == HEAPLEDGER_E_UNKNOWN && heapledger_is_live(first + 1000) == 0);
    CHECK(heapledger_allocated(0, first + 1000, 1, 0) == HEAPLEDGER_E_UNKNOWN && heapledger_is_live(first + 1000) == 0);
    CHECK(heapledger_refused(heap, 1, 0, 0) == HEAPLEDGER_E_UNKNOWN && heapledger_refused(200, 1, 0, 0) == HEAPLEDGER_E_UNKNOWN);
    /* Its blocks are none of whoever comes after it. */
    CHECK(arena_begin(&again, "after it", ranges[4], RANGE, LARGE) >= 0);
    CHECK(of(again.heap).used_blocks == 0 && of(again.heap).free_bytes == RANGE && of(again.heap).known == EVERYTHING);
    CHECK(heapledger_freed(first, 0) == 0 && heapledger_is_live(first) == 0);
    CHECK(of(again.heap).used_blocks == 0 && of(again.heap).free_bytes == RANGE);
    CHECK(heapledger_resizing(second, &resize) == 0 && heapledger_resized(&resize, heap, second, 300, 0) == HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_block_at(second, &block) == 0 && block.bytes == 200 && block.heap == heap);
    CHECK(heapledger_freed(second, 0) == 0 && heapledger_is_live(second) == 0 && of(again.heap).known == EVERYTHING);
    CHECK(heapledger_heap_end(again.heap) == 0);
}

/* What is not known is not invented. */
static void what_is_not_known(void) {
    static char pool[64];
    struct heapledger_shape shape;
    struct heapledger_heap figures;
    struct seen seen;
    int heap = heapledger_heap_begin("nowhere", NULL, 0, LARGE);
    void *block;
    memset(&shape, 0, sizeof shape);
    memset(&seen, 0, sizeof seen);
    CHECK(heap >= 0 && heapledger_allocated(heap, pool, 10, 0) == 0);
    figures = of(heap);
    CHECK(figures.known == HEAPLEDGER_KNOWS_ALL_BLOCKS);
    CHECK(figures.used_blocks == 1 && figures.total_bytes == 0);
    CHECK(heapledger_heap_walk(heap, sees, &seen) == 0 && seen.blocks == 1 && seen.gaps == 0);
    CHECK(heapledger_freed(pool, 0) == 0 && of(heap).used_bytes == 0 && heapledger_heap_end(heap) == 0);

    /* Without a shape what the allocator takes is among what is free. */
    heap = heapledger_heap_begin("without", ranges[2], 1000, LARGE);
    CHECK(heapledger_heap_shape(heap, &shape) == HEAPLEDGER_E_TOO_SMALL && heapledger_heap_shape(heap, NULL) < 0);
    heapledger_allocated(heap, ranges[2] + 100, 50, 0);
    shape.size = sizeof shape;
    CHECK(heapledger_heap_shape(heap, &shape) == HEAPLEDGER_E_NOT_SO);
    figures = of(heap);
    CHECK(figures.known == (EVERYTHING & ~(unsigned)HEAPLEDGER_KNOWS_OVERHEAD));
    CHECK(figures.free_bytes == 950 && figures.free_blocks == 2 && figures.largest_free_bytes == 850);
    /* Blocks that lie elsewhere, and those that pass by, are known to be missing. */
    heapledger_allocated(heap, pool, 10, 0);
    CHECK(!(of(heap).known & HEAPLEDGER_KNOWS_ALL_BLOCKS) && of(heap).used_bytes == 50);
    heapledger_freed(pool, 0);
    CHECK(heapledger_heap_end(heap) == 0);
    CHECK(of(arena.heap).known == EVERYTHING && heapledger_pause() == 0);
    block = arena_alloc(&arena, 100);
    CHECK(heapledger_resume() == 0);
    CHECK(of(arena.heap).known == (EVERYTHING & ~(unsigned)HEAPLEDGER_KNOWS_ALL_BLOCKS));
    arena_free(&arena, block);
}

static void c_heap(void) {
    struct heapledger_heap before = of(HEAPLEDGER_C_HEAP), now;
    void *volatile block = malloc(300000), *volatile small = malloc(3000);
    now = of(HEAPLEDGER_C_HEAP);
    CHECK(now.known == (HEAPLEDGER_KNOWS_TOTAL | HEAPLEDGER_KNOWS_OVERHEAD));
    CHECK(now.used_bytes == before.used_bytes + 303000 && now.used_blocks == before.used_blocks + 2);
    CHECK(now.overhead_bytes > 0 && now.total_bytes > 300000);
    free(block);
    free(small);
    CHECK(of(HEAPLEDGER_C_HEAP).used_bytes == before.used_bytes);
}

static void *hammers(void *unused) {
    void *blocks[16] = {0};
    int step, index;
    unsigned state = (unsigned)(uintptr_t)&step;
    for (step = 0; step < 20000; step++) {
        state = state * 1664525u + 1013904223u;
        index = state >> 16 & 15;
        arena_free(&arena, blocks[index]);
        blocks[index] = arena_alloc(&arena, 1 + (state >> 20) % 300);
    }
    for (index = 0; index < 16; index++) arena_free(&arena, blocks[index]);
    return unused;
}

static int counts(const struct heapledger_block *block, void *user) {
    *(size_t *)user += block->is_used != 0;
    return 1;
}

/* Figures while others allocate: never wrong by more than what is in flight, and exact at the end. */
static void from_several_threads(void) {
    struct heapledger_heap before = of(arena.heap), now;
    pthread_t threads[2];
    size_t index, round, blocks;
    for (index = 0; index < 2; index++) pthread_create(&threads[index], NULL, hammers, NULL);
    for (round = 0; round < 200; round++) {
        now = of(arena.heap);
        blocks = 0;
        CHECK(now.used_blocks <= 40 && now.used_bytes <= 40 * 300 && now.total_bytes == RANGE);
        CHECK(heapledger_heap_walk(arena.heap, counts, &blocks) == 0 && blocks <= RANGE / 32);
        heapledger_minimum_watch_start();
    }
    for (index = 0; index < 2; index++) pthread_join(threads[index], NULL);
    /* 32 blocks at a time. */
    CHECK(of(arena.heap).minimum_free_bytes >= RANGE - 32 * (304 + ARENA_PIECE));
    CHECK(heapledger_minimum_watch_stop() == 0);
    CHECK(same_but_for_minima(of(arena.heap), before));
}

static int refuses(void *to, const char *text, size_t bytes) {
    (void)text;
    (void)bytes;
    return ++*(int *)to > 1 ? -1 : 0;
}

/* Where things lie, for the test to compare, and the text. */
static void printed(void) {
    struct heapledger_output output;
    int calls = 0;
    void *first = arena_alloc(&arena, 20), *second = arena_alloc(&arena, 100);
    arena_free(&arena, first);
    CHECK(arena_begin(&other, "other", ranges[1], 4096, DMA) >= 0);
    printf("%lx %lx\n", (unsigned long)(uintptr_t)ranges[0], (unsigned long)(uintptr_t)ranges[1]);
    fflush(stdout);
    CHECK(heapledger_heaps_print(0, NULL) == 0);
    output = heapledger_file(stdout);
    CHECK(heapledger_heaps_dump(0, &output) == 0);
    fflush(stdout);
    output.write = NULL;
    output.descriptor = 1;
    CHECK(heapledger_heaps_print(DMA, &output) == 0);
    output.descriptor = 999;
    CHECK(heapledger_heaps_print(0, &output) < -1000);
    output.descriptor = -1;
    CHECK(heapledger_heaps_print(0, &output) == HEAPLEDGER_E_INVALID);
    output.write = refuses;
    output.to = &calls;
    CHECK(heapledger_heaps_print(0, &output) < -1000 && calls == 2);
    arena_free(&arena, second);
}

int main(int count, char **words) {
    const char *which = count > 1 ? words[1] : "";
    struct heapledger_heap figures;
    figures.size = sizeof figures;
    if (!HEAPLEDGER_PRESENT()) {
        CHECK(heapledger_heaps_figures(0, &figures) == HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    CHECK(arena_begin(&arena, "arena", ranges[0], RANGE, FAST) >= 0);
    if (!strcmp(which, "printed")) {
        printed();
        return 0;
    }
    if (!strcmp(which, "sampled")) {
        CHECK(!(of(arena.heap).known & HEAPLEDGER_KNOWS_ALL_BLOCKS));
        CHECK(of(arena.heap).free_bytes == RANGE);
        arena_free(&arena, arena_alloc(&arena, 1000));
        CHECK(of(arena.heap).free_bytes == RANGE);
        puts("sampled");
        return 0;
    }
    fresh_and_one_block();
    full_and_random();
    watch();
    later_heaps();
    blocks_of_addresses();
    heap_in_a_heap();
    walks();
    impossible_blocks();
    alignments();
    gone_with_blocks();
    c_heap();
    from_several_threads();
    what_is_not_known();
    puts("all is as it should be");
    return 0;
}
