// expect: live fn=final_sizes kind=realloc count=5
// expect: live fn=grow count=0
// Blocks that grow 1,000 times: in place (nothing behind them), moved (something behind them), as mappings, and shrunk again.
#include "victim.h"

static void fill(unsigned char *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        p[i] = (unsigned char)(i * 31);
}
static void verify(const unsigned char *p, size_t to)
{
    for (size_t i = 0; i < to; i += to > 4096 ? 61 : 1)
        CHECK(p[i] == (unsigned char)(i * 31));
}
__attribute__((noipa)) void grow(size_t step, int blocked)
{
    unsigned char *p = NULL;
    void *behind = NULL;
    size_t size = 0;
    for (int i = 0; i < 1000; i++) {
        p = opaque(realloc(p, size + step));
        CHECK(p != NULL);
        fill(p, size, size + step);
        size += step;
        if (blocked) {
            free(behind);
            behind = opaque(malloc(24));
        }
        if (i % 100 == 0)
            verify(p, size);
    }
    verify(p, size);
    while (size > step) {
        size -= step * (1 + size / step / 10);
        p = opaque(realloc(p, size));
        verify(p, size);
    }
    free(p);
    free(behind);
}
CALL_SITE void final_sizes(void)
{
    for (int i = 0; i < 5; i++) {
        void *p = opaque(malloc(10));
        for (int k = 1; k < 50; k++)
            p = opaque(realloc(p, k * 100 + i));
        p = opaque(reallocarray(p, 7, 100));
        p = opaque(realloc(p, 1000 + i));
        CHECK(p != NULL);
    }
}

int main(void)
{
    grow(16, 0);
    grow(40, 1);
    grow(1000, 0);
    grow(1000, 1);
    grow(4000, 0);
    final_sizes();
    // realloc as the only function in use: from NULL, to zero.
    for (int i = 0; i < 100; i++) {
        void *p = opaque(realloc(NULL, 50));
        CHECK(p != NULL);
        CHECK(opaque(realloc(p, 0)) == NULL);
    }
    printf("done\n");
    return 0;
}
