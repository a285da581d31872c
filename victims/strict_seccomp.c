// run:
// run: seccomp
// run: raw
// expect: live fn=before kind=malloc count=3 bytes=300
// expect: live fn=after count=0
// A program that enters seccomp's strict mode, in which every system call but read, write and the end of the thread kills, and goes
// on with what memory it has: by prctl, by seccomp(2), or (ARG1 = raw) by prctl through syscall. From then on nothing is recorded.
#include "victim.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

CALL_SITE char *before(void) { return (char *)opaque(malloc(100)); }
CALL_SITE char *after(size_t n) { return (char *)opaque(malloc(n)); }

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    for (int i = 0; i < 3; i++)
        CHECK(before() != NULL);
    char *last = before(), *blocks[200];
    // Memory that malloc will not have to ask for.
    free(opaque(malloc(100000)));
    // A child that does the same does not speak for its parent.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0)
            free(after(10));
        syscall(SYS_exit, 3);
    }
    reap(child, 3);
    free(last);
    long entered;
    if (getenv("COUNTER_OUT"))
        entered = 0; // the counting library would count on, and the ledger not
    else if (strcmp(how, "seccomp") == 0)
        entered = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    else if (strcmp(how, "raw") == 0)
        entered = syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    else
        entered = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (entered == 0)
        for (int round = 0; round < 1000; round++) {
            for (int i = 0; i < 200; i++)
                *(blocks[i] = after(1 + i * 2)) = 1;
            for (int i = 0; i < 200; i++)
                free((blocks[i] = (char *)realloc(blocks[i], 1 + i)));
        }
    static const char said[] = "strict\n";
    CHECK(write(1, said, sizeof said - 1) == sizeof said - 1);
    syscall(SYS_exit, 0);
    return 1;
}
