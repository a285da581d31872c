// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// mallopt(M_PERTURB), of blocks that are too large for a thread's cache, which knows nothing of it: fresh blocks are full of one
// byte, freed ones of another, zeroed ones of zeros. The tracker must not write into blocks, nor free and allocate in between.
#include "later_blocks.h"

static void is_full_of(const unsigned char *p, int byte, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        CHECK(p[i] == byte);
}

int main(void)
{
    CHECK(mallopt(M_PERTURB, 0x5a) == 1);
    static const size_t sizes[] = {1100, 1500, 2000, 5000, 20000, 100000, 140000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        unsigned char *volatile block = malloc(n);
        CHECK(block != NULL);
        if (n < 128 * 1024) // mapped blocks are fresh zeros
            is_full_of(block, 0x5a ^ 0xff, 0, n);
        memset(block, 1, n);
        unsigned char *zeros = calloc(n, 1);
        is_full_of(zeros, 0, 0, n);
        unsigned char *aligned = aligned_alloc(64, (n + 63) / 64 * 64);
        if (n < 120 * 1024)
            is_full_of(aligned, 0x5a ^ 0xff, 0, n);
        free(zeros), free(aligned);
        free(block);
        // Links of the allocator lie at the start and at the end of a free block.
        if (n <= 5000)
            is_full_of(opaque(block), 0x5a, 32, n - 8);
    }
    // What a block had stays when it grows.
    unsigned char *grown = malloc(100);
    memset(grown, 3, 100);
    grown = realloc(grown, 4000);
    is_full_of(grown, 3, 0, 100);
    free(grown);
    CHECK(mallopt(M_PERTURB, 0) == 1);
    later_blocks();
    printf("perturbed\n");
    return 0;
}
