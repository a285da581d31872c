// A library with an allocator of its own (with -DLIBRARY) that tells nobody how much of a block can be used, so that a program's question would
// go to the C library; and a program that uses it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
#include <sys/mman.h>

struct front {
    size_t bytes;
    size_t power;
};

static char *unused, *end;
static struct front *freed[64];

void *malloc(size_t bytes)
{
    size_t power = 4;
    while (((size_t)1 << power) < bytes)
        power++;
    struct front *front = freed[power];
    if (front) {
        freed[power] = *(struct front **)(front + 1);
    } else {
        size_t all = ((size_t)1 << power) + sizeof *front;
        if ((size_t)(end - unused) < all) {
            size_t more = all > (1 << 20) ? (all + 4095) & ~(size_t)4095 : 1 << 20;
            unused = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (unused == MAP_FAILED)
                abort();
            end = unused + more;
        }
        front = (struct front *)unused;
        unused += all;
    }
    front->bytes = bytes;
    front->power = power;
    return front + 1;
}

void free(void *block)
{
    if (!block)
        return;
    struct front *front = (struct front *)block - 1;
    if (front->power >= 64)
        abort();
    *(struct front **)block = freed[front->power];
    freed[front->power] = front;
}

void *calloc(size_t items, size_t bytes)
{
    return memset(malloc(items * bytes), 0, items * bytes);
}

void *realloc(void *block, size_t bytes)
{
    void *other = malloc(bytes);
    if (block) {
        size_t before = ((struct front *)block - 1)->bytes;
        memcpy(other, block, before < bytes ? before : bytes);
        free(block);
    }
    return other;
}
#else
int main(int count, char **words)
{
    (void)words;
    char *blocks[64] = {0};
    for (int step = 0; step < 20000; step++) {
        int at = step * 7 % 64;
        size_t bytes = 1 + step * 37 % 3000;
        if (step % 3) {
            char first = blocks[at] ? blocks[at][0] : 0;
            blocks[at] = realloc(blocks[at], bytes);
            if (first && blocks[at][0] != first)
                abort();
        } else {
            free(blocks[at]);
            blocks[at] = step % 2 ? calloc(1, bytes) : malloc(bytes);
        }
        blocks[at][0] = blocks[at][bytes - 1] = (char)(1 + step % 100);
    }
    if (count > 1) {
        volatile char *past = blocks[5] = realloc(blocks[5], 100);
        past[100] = 1;
    }
    for (int at = 0; at < 64; at++)
        free(blocks[at]);
    puts("done");
    return 0;
}
#endif
