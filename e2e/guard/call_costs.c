// Calls of the C library, a thousand of each kind in a row, of memory that is no block's and of blocks. `e2e/tests/call_costs.rs` counts
// what each takes, from one call of `segment` to the next.
#include "../../victims/victim.h"

enum { TIMES = 1000 };

static char one[64], other[64];
static volatile unsigned long sink;

CALL_SITE void segment(void) { opaque(NULL); }

#define TIMES_OF(CALL)                    \
    segment();                            \
    for (int i = 0; i < TIMES; i++) {     \
        CALL;                             \
    }

int main(void)
{
    char *from = one, *to = other;
    for (int is_block = 0; is_block < 2; is_block++) {
        memset(from, 'x', 63);
        memset(to, 'x', 63);
        // The first calls of all.
        sink += (unsigned long)snprintf(to, 64, "%d %s", 5, from + 50) + strlen(from);
        sink += (unsigned long)strcmp(from, to);
        TIMES_OF(memcpy(to, from, 40))
        TIMES_OF(sink += strlen(from))
        TIMES_OF(sink += (unsigned long)strcmp(from, from))
        TIMES_OF(sink += (unsigned long)snprintf(to, 64, "%d %s", 5, from + 50))
        segment();
        from = (char *)calloc(64, 1);
        to = (char *)calloc(64, 1);
    }
    return 0;
}
