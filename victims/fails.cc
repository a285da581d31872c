// run:
// expect: live fn=asks_for_too_much count=0
// Calls that give no block, each at a place of its own and three times: by malloc, by an operator that throws, by one that does not,
// and with arguments that nobody can serve. What there is afterwards stays.
#include "victim.h"
#include <new>

enum { AGAIN = 3 };
static size_t huge() { return opaque_size((size_t)1 << 62); }

CALL_SITE void asks_for_too_much() { CHECK(opaque(malloc(huge())) == NULL); }
CALL_SITE void multiplies_too_much() { CHECK(opaque(calloc(huge(), 8)) == NULL); }
CALL_SITE void throws_bad_alloc()
{
    try {
        opaque(operator new(huge()));
        CHECK(false);
    } catch (const std::bad_alloc &) {
    }
}
CALL_SITE void gives_null() { CHECK(opaque(operator new(huge(), std::nothrow)) == NULL); }
CALL_SITE void aligns_oddly()
{
    void *block;
    CHECK(posix_memalign(&block, opaque_size(24), 100) == EINVAL);
}
CALL_SITE void grows_too_much(void *kept) { CHECK(opaque(realloc(kept, huge())) == NULL); }

int main()
{
    void *kept = opaque(malloc(10));
    // One call in the source is one place, whatever the compiler makes of a loop.
    for (volatile int i = 0; i < AGAIN; i = i + 1) {
        asks_for_too_much();
        multiplies_too_much();
        throws_bad_alloc();
        gives_null();
        aligns_oddly();
        grows_too_much(kept);
    }
    free(kept);
    puts("nothing was given");
    return 0;
}
