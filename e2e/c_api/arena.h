/* A first-fit allocator over a range, which tells of its blocks: for tests of what the ledger then knows of it. */

#include <heapledger.h>
#include <pthread.h>
#include <string.h>

/* In front of each piece. The bytes behind it are a multiple of 16. */
struct piece {
    size_t bytes;
    size_t is_used;
};

struct arena {
    char *first;
    size_t bytes;
    int heap;
    unsigned capabilities;
    pthread_mutex_t lock;
};

#define ARENA_PIECE sizeof(struct piece)
#define ARENA_LEAST 16u

static size_t arena_rounded(size_t bytes) {
    return bytes <= ARENA_LEAST ? ARENA_LEAST : bytes > (size_t)-1 - 15 ? 0 : (bytes + 15) / 16 * 16;
}

/* Begins one; gives the number of its heap. */
static int arena_begin(struct arena *arena, const char *name, char *first, size_t bytes, unsigned capabilities) {
    struct heapledger_shape shape;
    struct piece *all = (struct piece *)(void *)first;
    memset(&shape, 0, sizeof shape);
    shape.size = sizeof shape;
    shape.before = ARENA_PIECE;
    shape.granule = 16;
    shape.least = ARENA_LEAST;
    arena->first = first;
    arena->bytes = bytes;
    arena->capabilities = capabilities;
    pthread_mutex_init(&arena->lock, NULL);
    arena->heap = heapledger_heap_begin(name, first, bytes, capabilities);
    if (arena->heap < 0) return arena->heap;
    all->bytes = bytes - ARENA_PIECE;
    all->is_used = 0;
    return heapledger_heap_shape(arena->heap, &shape) == 0 ? arena->heap : -1000;
}

static struct piece *arena_next(const struct arena *arena, struct piece *piece) {
    char *next = (char *)piece + ARENA_PIECE + piece->bytes;
    return next < arena->first + arena->bytes ? (struct piece *)(void *)next : NULL;
}

/* Leaves a piece so many bytes, and the rest to a free one. */
static void arena_cut(struct piece *piece, size_t bytes) {
    if (piece->bytes > bytes) {
        struct piece *rest = (struct piece *)(void *)((char *)piece + ARENA_PIECE + bytes);
        rest->bytes = piece->bytes - bytes - ARENA_PIECE;
        rest->is_used = 0;
        piece->bytes = bytes;
    }
}

static void arena_join(const struct arena *arena) {
    struct piece *piece = (struct piece *)(void *)arena->first, *next;
    while (piece && (next = arena_next(arena, piece))) {
        if (piece->is_used || next->is_used) piece = next;
        else piece->bytes += ARENA_PIECE + next->bytes;
    }
}

static void *arena_alloc(struct arena *arena, size_t bytes) {
    size_t rounded = arena_rounded(bytes);
    struct piece *piece;
    void *block = NULL;
    if (bytes == 0) return NULL;
    pthread_mutex_lock(&arena->lock);
    for (piece = (struct piece *)(void *)arena->first; piece && !block; piece = arena_next(arena, piece)) {
        if (!piece->is_used && rounded != 0 && piece->bytes >= rounded) {
            arena_cut(piece, rounded);
            piece->is_used = 1;
            block = piece + 1;
            heapledger_allocated(arena->heap, block, bytes, HEAPLEDGER_KIND_HEAP_CAPS_MALLOC);
        }
    }
    pthread_mutex_unlock(&arena->lock);
    if (!block) heapledger_refused(arena->heap, bytes, 0, HEAPLEDGER_KIND_HEAP_CAPS_MALLOC);
    return block;
}

static void arena_free(struct arena *arena, void *block) {
    if (!block) return;
    pthread_mutex_lock(&arena->lock);
    heapledger_freed(block, HEAPLEDGER_KIND_HEAP_CAPS_MALLOC);
    ((struct piece *)block - 1)->is_used = 0;
    arena_join(arena);
    pthread_mutex_unlock(&arena->lock);
}

/* Where it is if there is room, else NULL. */
__attribute__((unused)) static void *arena_resize(struct arena *arena, void *block, size_t bytes) {
    struct heapledger_resize kept;
    struct piece *piece = (struct piece *)block - 1, *next;
    size_t rounded = arena_rounded(bytes);
    int fits;
    pthread_mutex_lock(&arena->lock);
    heapledger_resizing(block, &kept);
    next = arena_next(arena, piece);
    fits = rounded != 0 && rounded <= piece->bytes + (next && !next->is_used ? ARENA_PIECE + next->bytes : 0);
    if (fits) {
        if (next && !next->is_used) piece->bytes += ARENA_PIECE + next->bytes;
        arena_cut(piece, rounded);
        arena_join(arena);
    }
    heapledger_resized(&kept, arena->heap, fits ? block : NULL, bytes, HEAPLEDGER_KIND_HEAP_CAPS_MALLOC);
    pthread_mutex_unlock(&arena->lock);
    return fits ? block : NULL;
}
