// expect: live fn=parent_leak kind=malloc count=3 bytes=300
// expect: live fn=child_leak count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// The child of a fork allocates a lot, frees what it inherited, and outlives a wait of its parent. ARG1 blocks, default 100000.
#include "later_blocks.h"

CALL_SITE void *parent_leak(void) { return opaque(malloc(100)); }
CALL_SITE void *child_leak(size_t n) { return opaque(malloc(n)); }

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 100000);
    void *kept[3];
    for (int i = 0; i < 3; i++)
        kept[i] = parent_leak();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (long i = 0; i < count; i++)
            *(char *)child_leak(1 + i % 200) = 1;
        for (int i = 0; i < 3; i++)
            free(kept[i]);
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            for (long i = 0; i < 1000; i++)
                child_leak(10);
            _exit(4);
        }
        reap(grandchild, 4);
        exit(3);
    }
    for (int i = 0; i < 1000; i++)
        free(opaque(malloc(i)));
    reap(child, 3);
    later_blocks();
    printf("child ended\n");
    return 0;
}
