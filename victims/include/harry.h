// A header whose function the compiler puts into its callers. It lies in a directory that is called as those of libraries.
#include <stdlib.h>

static inline __attribute__((always_inline)) void *dick(size_t size)
{
    return malloc(size);
}
