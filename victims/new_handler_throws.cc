// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=blocks_in_new_handler kind=malloc count=5 bytes=205
// A new_handler that throws its own exception out of operator new, 1,000 times; it allocates too, and once in a while gives
// memory back so that the retry inside operator new succeeds.
#include "later_blocks.h"
#include <new>
#include <vector>

struct Mine {
    int n;
};
static int called;
static std::vector<void *> *own;

CALL_SITE void blocks_in_new_handler(void) { free(opaque(malloc(5))), opaque(malloc(41)); }

static void handler()
{
    if (called % 250 == 0)
        blocks_in_new_handler();
    own->push_back(malloc(10));
    throw Mine{called++};
}

int main()
{
    own = new std::vector<void *>;
    std::set_new_handler(handler);
    size_t huge = opaque_size(PTRDIFF_MAX / 2);
    int caught = 0, null = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            void *p = i % 3 == 0 ? operator new(huge) : i % 3 == 1 ? operator new[](huge) : operator new(huge, std::align_val_t(64));
            p = opaque(p);
            CHECK(p == nullptr);
        } catch (const Mine &m) {
            CHECK(m.n == i);
            caught++;
        }
        delete (int *)opaque(new int);
    }
    // The nothrow form swallows what the handler throws.
    for (int i = 0; i < 10; i++)
        null += operator new(huge, std::nothrow) == nullptr;
    for (void *p : *own)
        free(p);
    delete own;
    std::set_new_handler(nullptr);
    later_blocks();
    printf("caught %d, null %d\n", caught, null);
    CHECK(caught == 1000 && null == 10);
}
