// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=asks_too_much count=0
// std::bad_alloc thrown out of operator new and caught, 1,000 times for each form; failed calls count as nothing.
#include "later_blocks.h"
#include <new>
#include <vector>

CALL_SITE void asks_too_much(int form)
{
    size_t huge = opaque_size(PTRDIFF_MAX / 2);
    std::align_val_t a{256};
    switch (form) {
    case 0: opaque(operator new(huge)); break;
    case 1: opaque(operator new[](huge)); break;
    case 2: opaque(operator new(huge, a)); break;
    case 3: opaque(operator new[](huge, a)); break;
    case 4: std::vector<char>().resize(huge); break;
    }
}

int main()
{
    int caught = 0;
    for (int i = 0; i < 1000; i++)
        for (int form = 0; form < 5; form++)
            try {
                asks_too_much(form);
            } catch (const std::bad_alloc &) {
                caught++;
            }
    int null = 0;
    for (int i = 0; i < 1000; i++)
        null += operator new(opaque_size(PTRDIFF_MAX / 2), std::nothrow) == nullptr;
    later_blocks();
    printf("caught %d, null %d\n", caught, null);
    CHECK(caught == 5000 && null == 1000);
}
