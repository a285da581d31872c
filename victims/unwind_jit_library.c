// flags: -rdynamic
// losses: stacks_guessed stacks_broken
// shared: unwind_layout.S libunwind_layout_b.so -DLETTER=b -DFRAME=2304
// shared: unwind_layout.S libunwind_layout_c.so -DLETTER=c -DFRAME=256
// Addresses that are a library's, then those of code made at run time, then another library's. Nobody tells of the second:
// it has no name and no table, and what is remembered of it may not be believed when it is a library again.
//
// Marks: 8,010 and 8,020 in libraries, 9,000 + caller in the other code.
#include "unwind_machine_code.h"
#include <dlfcn.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 40 };

static int marks, same_as_code, same_as_library;
static uintptr_t came_from;
CALL_SITE void plugin_mark(size_t mark)
{
    MARK(mark);
    marks++;
    came_from = (uintptr_t)__builtin_return_address(0);
}
void (*layout_mark)(size_t); // none: destructors are for another victim

typedef void outer_fn(void (*function)(size_t), size_t mark);
CALL_SITE void in_main_thread(outer_fn *outer, size_t mark) { outer(plugin_mark, mark); }
CALL_SITE void in_made_code(unsigned char *code, size_t mark) { ((machine_code *)code)(mark, plugin_mark, 0); }

int main(void)
{
    uintptr_t made = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int is_b = i % 2;
        void *library = dlopen(beside(is_b ? "libunwind_layout_b.so" : "libunwind_layout_c.so"), RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        outer_fn *outer = (outer_fn *)dlsym(library, is_b ? "layout_b_outer" : "layout_c_outer");
        CHECK(outer != NULL);
        in_main_thread(outer, is_b ? 8010 : 8020);
        same_as_code += came_from == made;
        CHECK(dlclose(library) == 0);
        // The same return address, in a frame of another size.
        unsigned char *page = map_code((void *)(came_from & -4096), 0);
        made = (uintptr_t)page + (came_from & 4095);
        unsigned char *code = (unsigned char *)made - MACHINE_RETURN_AT;
        make_machine_code(code, PLAIN_FRAME, 512);
        same_as_library += made == came_from;
        in_made_code(code, 9000);
        CHECK(came_from == made && munmap(page, 4096) == 0);
    }
    // If they came to lie elsewhere, nothing was tested.
    CHECK(same_as_code > ROUNDS / 2 && same_as_library > ROUNDS / 2);
    printf("marks %d\n", marks);
    return 0;
}
