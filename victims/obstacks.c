// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// expect: live fn=chunk count=2
// expect: allocs fn=chunk kind=malloc count>=100
// glibc's obstacks over malloc: objects that grow, are copied, are freed back to a mark, with chunks larger than asked for; and
// the handler of a chunk that cannot be had.
#include "later_blocks.h"
#include <obstack.h>
#include <setjmp.h>

CALL_SITE void *chunk(size_t n) { return opaque(malloc(n)); }
#define obstack_chunk_alloc chunk
#define obstack_chunk_free free

static jmp_buf failed;
static void no_memory(void) { longjmp(failed, 1); }
static void *none(size_t n) { return n > 100000 ? NULL : chunk(n); }

int main(void)
{
    static struct obstack stack, other;
    obstack_init(&stack);
    for (int round = 0; round < 20; round++) {
        char *mark = obstack_alloc(&stack, 8);
        for (int i = 1; i < 200; i++) {
            char *p = obstack_alloc(&stack, i * 7);
            CHECK(((uintptr_t)p & 7) == 0);
            memset(p, i, i * 7);
            for (int k = 0; k < i; k++)
                obstack_1grow(&stack, 'a' + k % 26);
            obstack_1grow(&stack, 0);
            char *text = obstack_finish(&stack);
            CHECK(strlen(text) == (size_t)i && p[0] == (char)i && p[i * 7 - 1] == (char)i);
        }
        char *large = obstack_alloc(&stack, 100000);
        memset(large, 1, 100000);
        obstack_free(&stack, mark);
    }
    char *copy = obstack_copy0(&stack, "kept", 4);
    obstack_alloc_failed_handler = no_memory;
    obstack_specify_allocation(&other, 0, 0, none, free);
    volatile int tries = 0;
    if (setjmp(failed) == 0) {
        tries = 1;
        obstack_blank(&other, 200000);
        CHECK(!"it was had");
    }
    CHECK(tries == 1 && strcmp(copy, "kept") == 0);
    later_blocks();
    printf("obstacks\n");
    return 0;
}
