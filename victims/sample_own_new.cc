// flags: -O2 -std=c++17 -faligned-new -fno-builtin
// uncounted: new[] new[](align) delete[](align) delete[](size,align)
// expect: allocs fn=array_by_new kind=malloc count=2000 bytes=216000
// expect: live fn=array_by_new kind=malloc count=1000 bytes=108000
// expect: allocs fn=aligned_array_by_new kind=aligned_alloc count=2000 bytes=384000
// expect: live fn=aligned_array_by_new kind=aligned_alloc count=1000 bytes=192000
// Operators of its own that jump on to malloc and free, under forms that only libstdc++ has and that jump on to these: who looks
// at return addresses must not find the tracker's own code there.
#include "victim.h"
#include <new>

static const std::align_val_t A64{64};

// Compiled to a jump. (The 8 and 64 bytes more keep a counting library from taking the two for one.)
void *operator new(std::size_t size)
{
    return malloc(size + 8);
}
void operator delete(void *block) noexcept
{
    free(block);
}
void *operator new(std::size_t size, std::align_val_t align)
{
    char *block = (char *)aligned_alloc((std::size_t)align, size + 64);
    return block == NULL ? NULL : block + 64;
}
// Compiled to a jump.
void operator delete(void *block, std::align_val_t) noexcept
{
    free((char *)block - 64);
}

static void *kept[2][2000];

CALL_SITE void array_by_new(void)
{
    for (int i = 0; i < 2000; i++)
        kept[0][i] = opaque(operator new[](opaque_size(100)));
}
CALL_SITE void aligned_array_by_new(void)
{
    for (int i = 0; i < 2000; i++)
        kept[1][i] = opaque(operator new[](opaque_size(128), A64));
}

int main(void)
{
    array_by_new();
    aligned_array_by_new();
    for (int i = 0; i < 2000; i += 2) {
        free(opaque(kept[0][i]));
        if (i % 4 == 0)
            operator delete[](opaque(kept[1][i]), (size_t)128, A64);
        else
            operator delete[](opaque(kept[1][i]), A64);
    }
    printf("done\n");
    return 0;
}
