/* A library that is linked with --wrap, or (PROGRAM) the program that calls it. */

#include <stdio.h>
#include <stdlib.h>

#ifdef PROGRAM

void *grow(size_t bytes);
int state(void);

static void *volatile kept;

int main(void) {
    void *grown = grow(10);
    kept = malloc(5);
    free(malloc(7));
    printf("state %d\n", state());
    return grown == NULL;
}

#else

#include <heapledger.h>

__attribute__((noinline)) void *grow(size_t bytes) {
    char *block = malloc(bytes);
    int step;
    for (step = 0; step < 5; step++) {
        char *more = realloc(block, bytes += 100);
        if (more == NULL) break;
        block = more;
    }
    return block;
}

int state(void) { return heapledger_state(); }

#endif
