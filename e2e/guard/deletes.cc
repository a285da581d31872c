// All forms of `delete`, each for a block of the `new` that goes with it, over an allocator that has operators of its own. With the word
// `bad` a byte is written behind each block that is aligned.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

using std::align_val_t;
using std::nothrow;

static bool is_bad;

// Blocks of others beside it, which must be as they were.
template <typename New, typename Delete> static void both(bool is_aligned, New make, Delete end)
{
    for (size_t n = 0; n < 300; n++) {
        size_t bytes = 30 + n % 90;
        auto *block = static_cast<unsigned char *>(make(bytes));
        auto *other = static_cast<unsigned char *>(malloc(bytes + 1));
        memset(block, 1, bytes);
        memset(other, 2, bytes + 1);
        if (is_bad && is_aligned && n == 0)
            static_cast<volatile unsigned char *>(block)[bytes] = 3;
        end(block, bytes);
        for (size_t at = 0; at <= bytes; at++)
            if (other[at] != 2)
                abort();
        free(other);
    }
}

static void aligned(align_val_t to)
{
    both(true, [=](size_t n) { return operator new(n, to); }, [=](void *p, size_t) { operator delete(p, to); });
    both(true, [=](size_t n) { return operator new(n, to); }, [=](void *p, size_t n) { operator delete(p, n, to); });
    both(true, [=](size_t n) { return operator new[](n, to); }, [=](void *p, size_t) { operator delete[](p, to); });
    both(true, [=](size_t n) { return operator new[](n, to); }, [=](void *p, size_t n) { operator delete[](p, n, to); });
    both(true, [=](size_t n) { return operator new(n, to, nothrow); },
         [=](void *p, size_t) { operator delete(p, to, nothrow); });
    both(true, [=](size_t n) { return operator new[](n, to, nothrow); },
         [=](void *p, size_t) { operator delete[](p, to, nothrow); });
}

int main(int argc, char **argv)
{
    is_bad = argc > 1 && strcmp(argv[1], "bad") == 0;
    both(false, [](size_t n) { return operator new(n); }, [](void *p, size_t) { operator delete(p); });
    both(false, [](size_t n) { return operator new(n); }, [](void *p, size_t n) { operator delete(p, n); });
    both(false, [](size_t n) { return operator new[](n); }, [](void *p, size_t) { operator delete[](p); });
    both(false, [](size_t n) { return operator new[](n); }, [](void *p, size_t n) { operator delete[](p, n); });
    both(false, [](size_t n) { return operator new(n, nothrow); }, [](void *p, size_t) { operator delete(p, nothrow); });
    both(false, [](size_t n) { return operator new[](n, nothrow); },
         [](void *p, size_t) { operator delete[](p, nothrow); });
    for (size_t to : {32, 64, 4096, 8192})
        aligned(align_val_t(to));
    puts("done");
}
