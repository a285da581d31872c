// flags: -fvisibility=hidden -Wl,-z,now
// untracked: hidden-allocator
// An allocator linked in statically under other names: the program's own blocks never pass malloc, though libc's few do.
// A program like this cannot be told from one that allocates little; the summary must not claim completeness beyond malloc.
#include "victim.h"

static char arena[1 << 20];
static size_t used;

__attribute__((noipa)) void *je_malloc(size_t n)
{
    used = (used + 15) / 16 * 16;
    CHECK(used + n <= sizeof arena);
    void *p = arena + used;
    used += n;
    return p;
}

int main(void)
{
    for (int i = 0; i < 1000; i++)
        memset(opaque(je_malloc(100)), 1, 100);
    printf("used %zu\n", used);
    return 0;
}
