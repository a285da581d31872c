// run: nothing
// What a forked child does wrong with blocks of its own and of its parent's: each word says which. Nothing of it harms a program that is
// not guarded, but for what frees twice.
// expect: live fn=parents_block count>=1
#include "victim.h"
#include <sys/wait.h>

enum { BYTES = 100 };

__attribute__((noinline)) static char *parents_block(void)
{
    char *p = malloc(BYTES);
    CHECK(p != NULL);
    memset(p, 1, BYTES);
    return p;
}

__attribute__((noinline)) static void parent_frees(void *p)
{
    free(p);
}

__attribute__((noinline)) static char *childs_block(void)
{
    char *p = malloc(BYTES);
    CHECK(p != NULL);
    return p;
}

__attribute__((noinline)) static void child_frees(void *p)
{
    free(p);
}

// So that the compiler does not see what is wrong.
static char *volatile kept, *volatile freed;

static void wrong(const char *what)
{
    char *own = childs_block();
    if (strcmp(what, "overflow-own") == 0) {
        ((volatile char *)own)[BYTES] = 2;
        child_frees(own);
    } else if (strcmp(what, "overflow-inherited") == 0) {
        ((volatile char *)kept)[BYTES] = 2;
        child_frees(kept);
    } else if (strcmp(what, "overflow-left") == 0) {
        ((volatile char *)kept)[BYTES] = 2; // seen when the child ends
    } else if (strcmp(what, "twice-own") == 0) {
        child_frees(own);
        child_frees(own);
    } else if (strcmp(what, "twice-inherited") == 0) {
        child_frees(kept);
        child_frees(kept);
    } else if (strcmp(what, "twice-across") == 0) {
        child_frees(freed); // its parent had done that
    } else if (strcmp(what, "middle") == 0) {
        child_frees(kept + 16);
    } else if (strcmp(what, "write-freed") == 0) {
        ((volatile char *)freed)[7] = 3; // the parent freed it
    } else if (strcmp(what, "write-freed-here") == 0) {
        child_frees(kept);
        ((volatile char *)kept)[7] = 3;
    } else if (strcmp(what, "resize") == 0) {
        char *grown = realloc(kept, 10 * BYTES);
        CHECK(grown != NULL && grown[BYTES - 1] == 1);
        CHECK(malloc(1) != NULL);
        child_frees(grown);
    } else if (strcmp(what, "shrink") == 0) {
        char *less = realloc(kept, BYTES / 2);
        CHECK(less != NULL && less[BYTES / 2 - 1] == 1);
        CHECK(malloc(1) != NULL);
        child_frees(less);
    } else if (strcmp(what, "grandchild") == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            ((volatile char *)freed)[7] = 3;
            child_frees(childs_block());
            exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
    } else {
        child_frees(kept);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    char *more = parents_block();
    kept = parents_block();
    freed = parents_block();
    parent_frees(freed);
    pid_t pid = fork();
    if (pid == 0) {
        wrong(what);
        exit(0);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    printf("%s %d %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -1, more[0] + kept[0]);
    return 0;
}
