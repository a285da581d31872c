/* A library that is opened when the program is recorded already. */
#include <stdlib.h>

__attribute__((noinline)) void *allocates_here(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}
