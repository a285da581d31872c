// expect: live fn=balanced_in_child count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// A vfork child shares the parent's heap. Here it mallocs and frees (balanced), frees a block of the parent, and leaves one
// block behind that the parent frees. Whether the child's calls are recorded is the tracker's choice; the heap is one.
#include "later_blocks.h"

static void *volatile from_child, *volatile from_parent;

CALL_SITE void balanced_in_child(void)
{
    void *p[20];
    for (int i = 0; i < 20; i++)
        p[i] = opaque(malloc(30 + i));
    for (int i = 0; i < 20; i++)
        free(p[i]);
}

int main(void)
{
    for (volatile int i = 0; i < 20; i++) {
        from_parent = malloc(500);
        pid_t child = vfork();
        if (child == 0) {
            balanced_in_child();
            free(from_parent);
            from_child = malloc(600);
            if (i % 2)
                execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        CHECK(child > 0);
        reap(child, 0);
        CHECK(from_child != NULL);
        memset(from_child, 1, 600);
        free(from_child);
    }
    later_blocks();
    printf("20 children\n");
    return 0;
}
