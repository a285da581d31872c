// Frees of what is no block, one in each run, whose name is the argument: `give` has the memory, `wrong` does what is wrong with it, and
// in between `first` may have freed it rightly. With `right` as the second argument the same is done without what is wrong.
#include "../../victims/victim.h"
#include <alloca.h>

enum { BYTES = 400 };
static char in_module[64];
static void *volatile pointer;

CALL_SITE void *give(size_t bytes) { return opaque(malloc(opaque_size(bytes))); }
CALL_SITE void first(void *block)
{
    free(block);
    opaque(NULL);
}
CALL_SITE void wrong(void *block)
{
    free(block);
    opaque(NULL);
}
CALL_SITE void *wrong_realloc(void *block) { return opaque(realloc(block, opaque_size(800))); }

static void *frees_first(void *block)
{
    first(block);
    return NULL;
}

int main(int count, char **words)
{
    CHECK(count >= 2);
    const char *what = words[1];
    const int is_wrong = count == 2;
    // Beside the block.
    void *before = give(24), *block = give(BYTES), *after = give(40);
    if (strcmp(what, "double") == 0) {
        first(block);
        if (is_wrong)
            wrong(block);
    } else if (strcmp(what, "of_another_thread") == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, frees_first, block) == 0 && pthread_join(thread, NULL) == 0);
        if (is_wrong)
            wrong(block);
    } else if (strcmp(what, "after_realloc") == 0) {
        void *moved = realloc(block, 100000);
        CHECK(moved != NULL);
        if (is_wrong)
            wrong(block);
        first(moved);
    } else if (strcmp(what, "large") == 0) {
        // glibc gives such a block back to the kernel.
        void *large = give(1 << 20);
        first(large);
        if (is_wrong)
            wrong(large);
        first(block);
    } else if (strcmp(what, "realloc_freed") == 0) {
        first(block);
        if (is_wrong)
            wrong_realloc(block);
    } else if (strcmp(what, "inside") == 0) {
        if (is_wrong)
            wrong((char *)block + 16);
        first(block);
    } else if (strcmp(what, "inside_large") == 0) {
        void *large = give(40 << 20);
        if (is_wrong)
            wrong((char *)large + (30 << 20));
        first(large);
    } else if (strcmp(what, "inside_realloc") == 0) {
        if (is_wrong)
            wrong_realloc((char *)block + 32);
        first(block);
    } else if (strcmp(what, "inside_freed") == 0) {
        first(block);
        if (is_wrong)
            wrong((char *)block + 64);
    } else if (strcmp(what, "stack") == 0) {
        char local[64];
        pointer = local;
        // What stands in front is what the allocator goes by.
        memset((void *)pointer, 0, sizeof local);
        if (is_wrong)
            wrong((char *)pointer + 16);
        first(block);
    } else if (strcmp(what, "module") == 0) {
        pointer = in_module;
        if (is_wrong)
            wrong((char *)pointer + 16);
        first(block);
    } else if (strcmp(what, "code") == 0) {
        if (is_wrong)
            wrong((void *)((uintptr_t)&main & ~(uintptr_t)15));
        first(block);
    } else if (strcmp(what, "text") == 0) {
        pointer = (void *)"a text of the program's";
        if (is_wrong)
            wrong((void *)pointer);
        first(block);
    } else if (strcmp(what, "nothing") == 0) {
        // So low that the kernel puts nothing there by itself.
        pointer = (void *)(uintptr_t)0x123450;
        if (is_wrong)
            wrong((void *)pointer);
        first(block);
    } else {
        CHECK(!"a case that there is");
    }
    first(before);
    first(after);
    return 0;
}
