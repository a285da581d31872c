// expect: live fn=balanced_in_clone count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// clone(CLONE_VM|CLONE_VFORK) on a stack of its own: memory and thread pointer are those of the parent, stack and pid are not.
#include "later_blocks.h"

CALL_SITE void balanced_in_clone(void)
{
    void *p[50];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++)
            p[i] = opaque(malloc(30 + i));
        for (int i = 0; i < 50; i++)
            free(p[i]);
    }
}
static int in_clone(void *arg)
{
    balanced_in_clone();
    (void)arg;
    _exit(8);
}

int main(void)
{
    size_t size = 256 * 1024;
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    char *from_heap = malloc(size);
    for (int i = 0; i < 20; i++) {
        char *stack = i % 2 ? mapped : from_heap;
        pid_t child = clone(in_clone, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        CHECK(child > 0);
        reap(child, 8);
        free(opaque(malloc(40)));
    }
    free(from_heap);
    later_blocks();
    printf("20 children\n");
    return 0;
}
