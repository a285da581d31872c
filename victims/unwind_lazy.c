// flags: -rdynamic -Wl,-z,lazy
// shared: unwind_lazy.c libunwind_lazy.so -Wl,-z,lazy -fplt
// Functions bound at their first call, which goes through the linkage table and the dynamic linker, whose frames are found by
// rbx; there a resolver allocates. The library is loaded anew each time, so that every binding happens again, called from
// another of two callers.
//
// Marks: 5,000 + 2 * function + caller in a resolver; 5,100 + the same in the caller; 5,200 and 5,201 in constructor and
// destructor.
#include "victim.h"
#include <dlfcn.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 60, FUNCTIONS = 8 };

static int in_resolvers, marks;

CALL_SITE void mark(size_t size)
{
    MARK(size);
    marks++;
    in_resolvers += size < 5100;
}
typedef void mark_fn(size_t size);
CALL_SITE mark_fn *mark_of_program(void) { return mark; }

typedef void caller_fn(long, long, long, long, long, long, long);
CALL_SITE void call_all(caller_fn *const (*callers)[2], uint32_t way)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        callers[i][way >> i & 1](1, 2, 3, 4, 5, 6, 7);
        callers[i][~way >> i & 1](1, 2, 3, 4, 5, 6, 7);
    }
}
CALL_SITE void open_and_close(uint32_t way)
{
    void *library = dlopen(beside("libunwind_lazy.so"), RTLD_LAZY | RTLD_LOCAL);
    CHECK(library != NULL);
    void (*begin)(mark_fn *) = (void (*)(mark_fn *))dlsym(library, "lazy_begin");
    caller_fn *const(*callers)[2] = (caller_fn * const(*)[2]) dlsym(library, "lazy_callers");
    CHECK(begin != NULL && callers != NULL);
    begin(mark);
    call_all(callers, way);
    CHECK(dlclose(library) == 0);
}

int main(void)
{
    uint32_t random = 2891336453;
    for (int i = 0; i < ROUNDS; i++)
        open_and_close(next_random(&random));
    // Else somebody had everything bound at once, and nothing was tested.
    CHECK(in_resolvers == ROUNDS * FUNCTIONS);
    printf("marks %d\n", marks);
    return 0;
}
