// run: nothing
// Forked children that shut themselves in before they allocate for the first time, each in another way, as servers do with the part of
// them that reads what strangers send. The words say in which ways; `self` is the process itself, after a first block.
// expect: live fn=before count=1
#include "victim.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

CALL_SITE void *before(void)
{
    return malloc(100);
}

CALL_SITE void *inside(void)
{
    return malloc(5000);
}

// Lets through what an allocator needs, and what it takes to say something and to end.
static void filter(unsigned otherwise, int by)
{
    static const unsigned let[] = {SYS_read, SYS_write, SYS_exit_group, SYS_exit, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap};
    enum { NUMBER = sizeof let / sizeof *let };
    struct sock_filter all[2 + 2 * NUMBER];
    int n = 0;
    all[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < NUMBER; i++) {
        all[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, let[i], 0, 1);
        all[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    all[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = {(unsigned short)n, all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by == 0)
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void shut_in(const char *how)
{
    if (strcmp(how, "nothing") == 0)
        return;
    else if (strcmp(how, "refuses") == 0)
        filter(SECCOMP_RET_ERRNO | EPERM, 0);
    else if (strcmp(how, "kills") == 0)
        filter(SECCOMP_RET_KILL_PROCESS, 0);
    else if (strcmp(how, "kills-by-syscall") == 0)
        filter(SECCOMP_RET_KILL_PROCESS, 1);
    else if (strcmp(how, "traps") == 0)
        filter(SECCOMP_RET_TRAP, 0);
    else if (strcmp(how, "strict") == 0)
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    else if (strcmp(how, "chroot") == 0)
        CHECK(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0);
    else
        CHECK(!"a way");
}

static void *volatile kept;

static void allocates_and_ends(void)
{
    for (int i = 0; i < 3; i++) {
        char *p = inside();
        memset(p, 1, 5000);
        free(p);
    }
    free(kept);
    (void)!write(1, "inside\n", 7);
    syscall(SYS_exit, 0);
}

int main(int argc, char **argv)
{
    kept = before();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "self") == 0) {
            shut_in(argv[i + 1]);
            allocates_and_ends();
        }
        pid_t child = fork();
        if (child == 0) {
            shut_in(argv[i]);
            allocates_and_ends();
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
