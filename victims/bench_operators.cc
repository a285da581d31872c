// flags: -O1 -fno-builtin
// run: new 20 4000
// run: array 20 4000
// run: nothrow 20 4000
// expect: allocs fn=give count=4000
// What `e2e/tests/instructions.rs` counts of C++: pairs of `new` and `delete` at the end of one call path. From one call of `segment` to the
// next are 2,000 of them.
//
//     bench_operators new|array|nothrow DEPTH PAIRS
#include "victim.h"
#include <new>

enum { SEGMENT = 2000 };

// Another 2,000 pairs are to come.
CALL_SITE void segment(void)
{
    opaque(NULL);
}

static int is_array, is_nothrow;

CALL_SITE void *give(size_t bytes)
{
    if (is_array)
        return opaque(::operator new[](bytes));
    return opaque(is_nothrow ? ::operator new(bytes, std::nothrow) : ::operator new(bytes));
}

CALL_SITE void take(void *block, size_t bytes)
{
    if (is_array)
        ::operator delete[](block);
    else if (is_nothrow)
        ::operator delete(block, std::nothrow);
    else
        ::operator delete(block, bytes);
    opaque(NULL);
}

CALL_SITE void descend(long depth, long pairs)
{
    if (depth > 0) {
        descend(depth - 1, pairs);
        opaque(NULL);
        return;
    }
    for (; pairs > 0; pairs--) {
        if (pairs % SEGMENT == 0)
            segment();
        take(give(40), 40);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "new";
    is_array = !strcmp(mode, "array");
    is_nothrow = !strcmp(mode, "nothrow");
    descend(arg_number(argc, argv, 2, 20), arg_number(argc, argv, 3, 4000));
    return 0;
}
