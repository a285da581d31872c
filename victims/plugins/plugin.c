// The shared object of the dl_*.c victims, built twice: -DLETTER=a and -DLETTER=b, same layout, other names.
#include <stdlib.h>
#include <string.h>

#define GLUE2(a, b, c) a##b##c
#define GLUE(a, b, c) GLUE2(a, b, c)
#define LEAK GLUE(plugin_, LETTER, _leak)

static __thread char scratch[200]; // dynamic TLS: libc allocates it at the first touch

__attribute__((noipa)) void *LEAK(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}
__attribute__((noipa)) int plugin_work(int n)
{
    void *p[10];
    for (int i = 0; i < 10; i++) {
        p[i] = calloc(n, i + 1);
        __asm__ volatile("" : "+r"(p[i]) : : "memory");
    }
    for (int i = 0; i < 10; i++)
        free(p[i]);
    memset(scratch, n, sizeof scratch);
    __asm__ volatile("" : : "r"(scratch) : "memory");
    return scratch[5];
}
static void *made;
__attribute__((constructor)) static void begin(void) { made = malloc(333); }
__attribute__((destructor)) static void end(void) { free(made); }
