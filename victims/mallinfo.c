// The heap's own statistics after a fixed sequence: the tracker must not add, move or enlarge a block.
#include "victim.h"

static void report(const char *when)
{
    struct mallinfo2 m = mallinfo2();
    char line[200];
    // One write without stdio: a stdio buffer would be a block too.
    int n = snprintf(line, sizeof line, "%s: uordblks=%zu fordblks=%zu arena=%zu hblks=%zu hblkhd=%zu smblks=%zu\n", when,
                     m.uordblks, m.fordblks, m.arena, m.hblks, m.hblkhd, m.smblks);
    CHECK(write(1, line, n) == n);
}

int main(void)
{
    static void *block[1000];
    uint32_t seed = 7;
    free(opaque(malloc(1)));
    report("start");
    for (int i = 0; i < 1000; i++) {
        size_t n = next_random(&seed) % 3000;
        block[i] = opaque(i % 3 ? malloc(n) : calloc(n, 1));
        CHECK(block[i] != NULL && malloc_usable_size(block[i]) == (n <= 24 ? 24 : (n + 8 + 15) / 16 * 16 - 8));
    }
    report("1000 blocks");
    for (int i = 0; i < 1000; i += 2)
        free(block[i]);
    report("500 blocks");
    for (int i = 1; i < 1000; i += 2)
        block[i] = opaque(realloc(block[i], 5000));
    report("500 larger blocks");
    void *big = opaque(malloc(10000000));
    report("one large block");
    free(big);
    for (int i = 1; i < 1000; i += 2)
        free(block[i]);
    malloc_trim(0);
    report("end");
    return 0;
}
