// A library that calls back, from other places and other depths as another one of two (`OTHER`), and of another size.
#include <stddef.h>

typedef void back_t(size_t);

#ifdef OTHER
#define LETTER(name) name##_b
static volatile char data[30000];
#else
#define LETTER(name) name##_a
static volatile char data[9000];
#endif

__attribute__((noinline)) static void LETTER(deep)(back_t *back, size_t depth)
{
    volatile char room[64];
    room[depth % 64] = 1;
    if (depth > 0)
        LETTER(deep)(back, depth - 1);
    else
        back(100);
    room[0] = data[depth];
}

void calls_back(back_t *back)
{
#ifdef OTHER
    for (size_t bytes = 1; bytes < 10; bytes++)
        back(bytes);
    LETTER(deep)(back, 5);
#endif
    LETTER(deep)(back, 2);
    back(20);
    data[0] = 1;
}
