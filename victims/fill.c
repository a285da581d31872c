// run:
// run: 20000 600
// expect-run 1: live fn=fill_block kind=malloc count=100000
// expect-run 2: live fn=fill_block kind=malloc count=20000
// For use under limits (ulimit -v, ulimit -f, a tiny tmpfs, a full disk): ARG1 blocks (default 100000) of ARG2 bytes (default 100),
// each with its own content, verified at the end. Without the tracker it needs (ARG2 + 32) * ARG1 bytes. Prints done, or how
// it failed: the limits must hit the ledger before they hit the program.
#include "victim.h"

CALL_SITE void *fill_block(size_t n) { return opaque(malloc(n)); }

// Many different stacks, so that the call-site table grows as well: each bit of PATH takes another call site.
__attribute__((noipa)) static void *descend(size_t n, long path)
{
    void *volatile p;
    if (path <= 1)
        return fill_block(n);
    if (path % 2)
        p = descend(n, path / 2);
    else {
        p = descend(n, path / 2);
        __asm__ volatile("nop"); // keeps the two calls two
    }
    return p;
}

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 100000), size = arg_number(argc, argv, 2, 100);
    CHECK(size >= 16);
    void *last = NULL;
    for (long i = 0; i < count; i++) {
        void **p = descend(size, i % 4096);
        if (p == NULL) {
            printf("no memory for a block\n");
            return 2;
        }
        p[0] = last;
        p[1] = (void *)i;
        last = p;
    }
    long n = 0;
    for (void **p = last; p != NULL; p = p[0], n++)
        CHECK((long)p[1] == count - 1 - n);
    CHECK(n == count);
    printf("done\n");
    return 0;
}
