/* What a program is told of its heap follows its blocks, wherever they lie: mallinfo, mallinfo2, malloc_trim, mallopt. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 400, BYTES = 50000 };

static size_t in_use(void) {
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static const char *about(size_t bytes) {
    size_t all = (size_t)BLOCKS * BYTES;
    if (bytes < all / 10) return "next to nothing";
    if (bytes < all) return "less";
    return bytes < all * 3 / 2 ? "all" : "more";
}

int main(void) {
    static char *blocks[BLOCKS];
    size_t before = in_use();
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BYTES);
    size_t with = in_use();
    struct mallinfo2 now = mallinfo2();
    printf("in use: %s\n", about(with - before));
    printf("from the system: %s\n", now.arena + now.hblkhd >= with ? "as much at least" : "less");
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo small = mallinfo();
    size_t differ = (size_t)abs((int)(now.uordblks - (unsigned)small.uordblks));
    printf("mallinfo: %s\n", differ < 10000 ? "the same" : "another");
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    printf("freed: %s\n", about(in_use() - before));
    printf("free: %s\n", mallinfo2().uordblks + mallinfo2().fordblks <= mallinfo2().arena + 1000000 ? "within" : "beyond");
    int trimmed = malloc_trim(0);
    printf("malloc_trim: %s, mallopt: %d\n", trimmed == 0 || trimmed == 1 ? "0 or 1" : "neither", mallopt(M_MMAP_THRESHOLD, 1 << 20));
    printf("usable: %s\n", malloc_usable_size(blocks[0] = malloc(100)) >= 100 ? "enough" : "less");
    free(blocks[0]);
    return 0;
}
