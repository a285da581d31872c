// flags: -std=c++17 -fno-builtin -faligned-new
// expect: live fn=leak_new kind=new count=2 bytes=22
// expect: live fn=leak_new kind=new[] count=2 bytes=26
// expect: live fn=leak_new kind=new(nothrow) count=1 bytes=15
// expect: live fn=leak_new kind=new[](nothrow) count=1 bytes=17
// expect: live fn=leak_new kind=new(align) count=1 bytes=19
// expect: live fn=leak_new kind=new[](align) count=1 bytes=21
// expect: live fn=leak_new kind=new(align,nothrow) count=1 bytes=23
// expect: live fn=leak_new kind=new[](align,nothrow) count=1 bytes=25
// expect: live fn=leak_new kind=malloc count=0
// expect: live fn=leak_new kind=aligned_alloc count=0
// Every form of operator new and delete; the nested malloc of libstdc++ must not be booked a second time.
#include "victim.h"
#include <initializer_list>
#include <new>

static const std::align_val_t A64{64}, A4096{4096};
static const std::nothrow_t &NT = std::nothrow;
void *volatile kept[10];

CALL_SITE void leak_new(void)
{
    kept[0] = operator new(11);
    kept[1] = operator new(11);
    kept[2] = operator new[](13);
    kept[3] = operator new[](13);
    kept[4] = operator new(15, NT);
    kept[5] = operator new[](17, NT);
    kept[6] = operator new(19, A64);
    kept[7] = operator new[](21, A64);
    kept[8] = operator new(23, A64, NT);
    kept[9] = operator new[](25, A64, NT);
}

static void *checked(const char *what, void *p, size_t size, size_t align)
{
    p = opaque(p);
    CHECK(p != nullptr);
    CHECK((uintptr_t)p % align == 0);
    CHECK(malloc_usable_size(p) >= size);
    memset(p, 0x77, size);
    printf("%s %zu: block", what, size);
    if (align == 16) // of others it depends on the neighbours
        printf(" usable=%zu", malloc_usable_size(p));
    printf("\n");
    return p;
}

template <class F> static void throws(const char *what, F f)
{
    try {
        void *p = opaque(f());
        printf("%s: %s\n", what, p ? "block" : "null");
    } catch (const std::bad_alloc &e) {
        printf("%s: %s\n", what, e.what());
    }
}

struct Plain {
    long a[5];
    ~Plain() { a[0] = 1; }
};
struct alignas(128) Aligned {
    char a[200];
    ~Aligned() { a[0] = 1; }
};

int main()
{
    for (size_t n : {0, 1, 7, 8, 24, 25, 64, 1000, 5000, 200000}) {
        operator delete(checked("new", operator new(n), n, 16));
        operator delete(checked("new", operator new(n), n, 16), n);
        operator delete(checked("new", operator new(n), n, 16), NT);
        operator delete[](checked("new[]", operator new[](n), n, 16));
        operator delete[](checked("new[]", operator new[](n), n, 16), n);
        operator delete[](checked("new[]", operator new[](n), n, 16), NT);
        operator delete(checked("new(nothrow)", operator new(n, NT), n, 16), NT);
        operator delete[](checked("new[](nothrow)", operator new[](n, NT), n, 16), NT);
        operator delete(checked("new(64)", operator new(n, A64), n, 64), A64);
        operator delete(checked("new(64)", operator new(n, A64), n, 64), n, A64);
        operator delete(checked("new(64)", operator new(n, A64), n, 64), A64, NT);
        operator delete[](checked("new[](64)", operator new[](n, A64), n, 64), A64);
        operator delete[](checked("new[](64)", operator new[](n, A64), n, 64), n, A64);
        operator delete[](checked("new[](64)", operator new[](n, A64), n, 64), A64, NT);
        operator delete(checked("new(4096,nothrow)", operator new(n, A4096, NT), n, 4096), A4096, NT);
        operator delete[](checked("new[](4096,nothrow)", operator new[](n, A4096, NT), n, 4096), A4096, NT);
    }

    size_t huge = opaque_size(PTRDIFF_MAX);
    std::align_val_t odd{opaque_size(48)};
    throws("new huge", [&] { return operator new(huge); });
    throws("new[] huge", [&] { return operator new[](huge); });
    throws("new(nothrow) huge", [&] { return operator new(huge, NT); });
    throws("new[](nothrow) huge", [&] { return operator new[](huge, NT); });
    throws("new(64) huge", [&] { return operator new(huge, A64); });
    throws("new[](64) huge", [&] { return operator new[](huge, A64); });
    throws("new(64,nothrow) huge", [&] { return operator new(huge, A64, NT); });
    throws("new[](64,nothrow) huge", [&] { return operator new[](huge, A64, NT); });
    throws("new(48)", [&] { return operator new(10, odd); });
    throws("new(48,nothrow)", [&] { return operator new(10, odd, NT); });
    throws("new SIZE_MAX", [&] { return operator new(opaque_size(SIZE_MAX)); });
    try {
        size_t n = opaque_size(SIZE_MAX / 4);
        Plain *p = new Plain[n];
        printf("bad array length: %s\n", opaque(p) ? "block" : "null");
    } catch (const std::bad_alloc &e) {
        printf("bad array length: %s\n", e.what());
    }

    errno = 77;
    operator delete(nullptr);
    operator delete[](nullptr);
    operator delete(nullptr, 5);
    operator delete(nullptr, A64);
    operator delete[](nullptr, NT);
    void *p = opaque(operator new(10));
    operator delete(p);
    CHECK(errno == 77);

    // As the language uses them; a malloc block and a new block are the same to libstdc++.
    delete (Plain *)opaque(new Plain);
    delete[] (Plain *)opaque(new Plain[7]);
    Aligned *a = (Aligned *)opaque(new Aligned);
    CHECK((uintptr_t)a % 128 == 0);
    delete a;
    delete[] (Aligned *)opaque(new Aligned[3]);

    leak_new();
    printf("done\n");
}
