// expect: live fn=tom count=3 bytes=300
// A function of a header allocates, inlined into the function that a person looks for.
#include "victim.h"
#include "include/harry.h"

static inline __attribute__((always_inline)) void *own(size_t size)
{
    return dick(size);
}

CALL_SITE void tom(void)
{
    for (int i = 0; i < 3; i++)
        opaque(own(100));
}

int main(void)
{
    tom();
    return 0;
}
