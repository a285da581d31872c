// flags: -rdynamic
// losses: stacks_guessed stacks_broken
// shared: unwind_layout.S libunwind_layout_b.so -DLETTER=b -DFRAME=2304
// shared: unwind_layout.S libunwind_layout_c.so -DLETTER=c -DFRAME=256
// shared: unwind_layout.S libunwind_layout_e.so -DLETTER=e -DFRAME=256 -DBROKEN=8100
// A library that cannot be loaded: the loader maps it, calls a resolver in it, finds that a function is lacking, and unmaps it
// again, all without a dlclose. Others get its addresses, with frames of another size, or with equal ones and other names.
//
// Marks: 8,100 in the resolver; 8,000 + 10 * library in libraries that can be loaded.
#include "victim.h"
#include <dlfcn.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 30 };

static int marks, same;
static uintptr_t in_broken, in_good;
CALL_SITE void plugin_mark(size_t mark)
{
    MARK(mark);
    marks++;
    // Where the call came from.
    *(mark == 8100 ? &in_broken : &in_good) = (uintptr_t)__builtin_return_address(0);
}
void (*layout_mark)(size_t) = plugin_mark;

typedef void outer_fn(void (*function)(size_t), size_t mark);
CALL_SITE void open_broken(void)
{
    CHECK(dlopen(beside("libunwind_layout_e.so"), RTLD_NOW | RTLD_LOCAL) == NULL);
}
CALL_SITE void in_main_thread(outer_fn *outer, size_t mark) { outer(plugin_mark, mark); }

int main(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        int is_b = i % 2;
        open_broken();
        void *library = dlopen(beside(is_b ? "libunwind_layout_b.so" : "libunwind_layout_c.so"), RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        outer_fn *outer = (outer_fn *)dlsym(library, is_b ? "layout_b_outer" : "layout_c_outer");
        CHECK(outer != NULL);
        in_main_thread(outer, is_b ? 8010 : 8020);
        same += in_good == in_broken;
        *(size_t *)dlsym(library, "layout_last") = is_b ? 8012 : 8022;
        CHECK(dlclose(library) == 0);
    }
    // If the addresses were others, nothing was tested; if there was no call from the library, it was not mapped at all.
    CHECK(marks == 3 * ROUNDS && same > ROUNDS / 2);
    printf("marks %d\n", marks);
    return 0;
}
