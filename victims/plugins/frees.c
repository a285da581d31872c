// A plugin that frees the program's blocks, gives blocks to the program, and keeps some.
#include <stdlib.h>

static void *kept;

__attribute__((noipa)) void plugin_free(void *p) { free(p); }
__attribute__((noipa)) void *plugin_give(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}
__attribute__((noipa)) void plugin_keep(size_t n) { kept = plugin_give(n); }
