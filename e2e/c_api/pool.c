/* A pool that tells of its blocks: who took them holds them, in C and in C++, with and without optimisation. */
#define HEAPLEDGER_WEAK
#include <heapledger.h>

static char memory[4096];
static unsigned used;
static int heap;

__attribute__((noinline)) static void *take(unsigned bytes)
{
    void *block = memory + used;
    used += bytes;
    return heapledger_allocated(heap, block, bytes, 0) < 0 ? (void *)0 : block;
}

__attribute__((noinline)) static void *grow(void *block, unsigned bytes)
{
    struct heapledger_resize kept;
    if (heapledger_resizing(block, &kept) < 0) {
        return (void *)0;
    }
    void *more = memory + used;
    used += bytes;
    return heapledger_resized(&kept, heap, more, bytes, 0) < 0 ? (void *)0 : more;
}

__attribute__((noinline)) static void refuse(void)
{
    heapledger_refused(heap, 5000, 0, 0);
}

int main(void)
{
    heap = heapledger_heap_begin("pool", memory, sizeof memory, 0);
    void *block = take(64);
    refuse();
    return heap > 0 && take(128) && grow(block, 96) ? 0 : 1;
}
