// Storms in children that share the memory, between those of their parent: after vfork, on the parent's own stack; after
// clone(CLONE_VM), on one of their own, which is gone afterwards. Children of fork run storms too, which nobody records.
//
// In a child of clone the mark of a step is 2^24 more.
#define STORM_MARK(s, size) MARK((size) + (unsigned)(uintptr_t)(s)->own)
#include "unwind_storm.h"

enum { ROUNDS = 24, OF_EACH = 40, STACK = 192 * 1024 };

static struct storm parent = {.random = 48271}, child = {.random = 69621};

CALL_SITE void in_vfork_child(void)
{
    child.own = NULL;
    storm(&child, child.marks + OF_EACH);
}
CALL_SITE int in_clone(void *argument)
{
    (void)argument;
    child.own = (void *)(uintptr_t)(1 << 24);
    storm(&child, child.marks + OF_EACH);
    _exit(7);
}
CALL_SITE void storm_of_parent(void) { storm(&parent, parent.marks + OF_EACH); }

CALL_SITE void by_vfork(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        in_vfork_child();
        _exit(7);
    }
    CHECK(pid > 0);
    reap(pid, 7);
}
static void by_clone(void)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    pid_t pid = clone(in_clone, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    CHECK(pid > 0);
    reap(pid, 7);
    CHECK(munmap(stack, STACK) == 0);
}
static void by_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        in_vfork_child();
        _exit(7);
    }
    CHECK(pid > 0);
    reap(pid, 7);
}

int main(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        storm_of_parent();
        if (i % 3 == 0)
            by_vfork();
        else if (i % 3 == 1)
            by_clone();
        else
            by_fork();
    }
    CHECK(child.marks == ROUNDS / 3 * 2 * OF_EACH);
    printf("marks %d\n", parent.marks + child.marks);
    return 0;
}
