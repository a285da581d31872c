// Blocks that are given back by a function of another family than gave them, or with another size: each by a function of its own, after
// one of its own has asked for it. Twice each, so that the second time is the same error again.
#include "../../victims/victim.h"
#include <new>

#define WRONG(name, gives, ends)           \
    CALL_SITE void *name##_gives()         \
    {                                      \
        return opaque(gives);              \
    }                                      \
    CALL_SITE void name##_ends(void *block) \
    {                                      \
        ends;                              \
        opaque(NULL);                      \
    }

EXTERN_C void free_sized(void *block, size_t bytes) __attribute__((weak));
EXTERN_C void free_aligned_sized(void *block, size_t alignment, size_t bytes) __attribute__((weak));
static const std::align_val_t PAGE = std::align_val_t(4096);

WRONG(malloc_delete, malloc(100), operator delete(block))
WRONG(calloc_delete_array, calloc(10, 20), operator delete[](block))
WRONG(strdup_delete, strdup("seven bytes"), operator delete(block))
WRONG(new_free, operator new(300), free(block))
WRONG(new_array_free, operator new[](400), free(block))
WRONG(new_realloc, operator new(500), free(realloc(block, 5000)))
WRONG(new_delete_array, operator new(600), operator delete[](block))
WRONG(new_array_delete, operator new[](700), operator delete(block))
WRONG(object_delete_array, new long[80], operator delete(block))
WRONG(aligned_delete, operator new(800, PAGE), operator delete(block))
WRONG(delete_aligned, operator new(900), operator delete(block, PAGE))
WRONG(sized, operator new(1000), operator delete(block, (size_t)996))
WRONG(array_sized, operator new[](1100), operator delete[](block, (size_t)1))
WRONG(aligned_sized, operator new(1200, PAGE), operator delete(block, (size_t)1201, PAGE))
WRONG(free_sized_other, malloc(1300), free_sized(block, 1301))
WRONG(free_sized_aligned, aligned_alloc(64, 1408), free_sized(block, 1408))
WRONG(free_aligned_sized_other, aligned_alloc(64, 1536), free_aligned_sized(block, 64, 1537))
WRONG(huge, operator new((size_t)5 << 30), operator delete(block, (size_t)6 << 30))

struct Base {
    long one;
};
struct Derived : Base {
    long two;
};
WRONG(derived, static_cast<Base *>(new Derived()), delete static_cast<Base *>(block))

#define TWICE(name)                                        \
    for (size_t left = opaque_size(2); left != 0; left--) { \
        name##_ends(name##_gives());                       \
    }

int main()
{
    TWICE(malloc_delete)
    TWICE(calloc_delete_array)
    TWICE(strdup_delete)
    TWICE(new_free)
    TWICE(new_array_free)
    TWICE(new_realloc)
    TWICE(new_delete_array)
    TWICE(new_array_delete)
    TWICE(object_delete_array)
    TWICE(aligned_delete)
    TWICE(delete_aligned)
    TWICE(sized)
    TWICE(array_sized)
    TWICE(aligned_sized)
    TWICE(huge)
    TWICE(derived)
    if (free_sized != NULL && free_aligned_sized != NULL) {
        TWICE(free_sized_other)
        TWICE(free_sized_aligned)
        TWICE(free_aligned_sized_other)
    }
    return 0;
}
