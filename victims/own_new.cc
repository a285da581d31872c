// uncounted: new[] delete[]
// expect: live fn=leak_own_new kind=malloc count=6 bytes=348
// expect: live fn=leak_own_new kind=new count=0
// The program replaces operator new and delete (calling malloc with a header): its blocks are seen as malloc's.
#include "later_blocks.h"
#include <new>
#include <string>
#include <vector>

static long balance;
void *operator new(size_t n)
{
    long *p = (long *)malloc(n + 16);
    if (p == nullptr)
        throw std::bad_alloc();
    p[0] = 0x5ca1ab1e;
    balance++;
    return p + 2;
}
void operator delete(void *p) noexcept
{
    if (p == nullptr)
        return;
    long *h = (long *)p - 2;
    CHECK(h[0] == 0x5ca1ab1e);
    h[0] = 0;
    balance--;
    free(h);
}
void operator delete(void *p, size_t) noexcept { operator delete(p); }

void *volatile kept[6];
CALL_SITE void leak_own_new(void)
{
    for (int i = 0; i < 6; i++)
        kept[i] = i % 2 ? operator new[](42) : operator new(42); // libstdc++'s new[] calls ours
}

int main()
{
    {
        std::vector<std::string> v;
        for (int i = 0; i < 100; i++)
            v.push_back(std::string(100, 'o'));
        delete[] (char *)opaque(new char[50]);
    }
    CHECK(balance == 0);
    leak_own_new();
    printf("balance %ld\n", balance);
}
