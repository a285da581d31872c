// flags: -pthread
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

// What an allocator needs, and what it takes to say something and to end.
#define FEW SYS_read, SYS_write, SYS_exit_group, SYS_exit, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap
static const unsigned few[] = {FEW};
// With what docs/limits.md says that recording takes, and what it takes to start a thread.
static const unsigned enough[] = {
    FEW, SYS_prctl, SYS_tgkill, SYS_gettid, SYS_getpid, SYS_mincore, SYS_madvise, SYS_mprotect, SYS_sigaltstack, SYS_prlimit64,
    SYS_statfs, SYS_clock_gettime, SYS_readlink, SYS_getcwd, SYS_process_vm_readv, SYS_futex, SYS_rt_sigprocmask,
    SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rseq, SYS_rt_sigaction,
    SYS_getrandom, SYS_sched_yield, SYS_openat, SYS_close,
};

// Lets these through.
static void filter_all_but(const unsigned *let, size_t number, unsigned otherwise, int by)
{
    struct sock_filter all[100];
    int n = 0;
    all[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < number; i++) {
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

static void filter(unsigned otherwise, int by)
{
    filter_all_but(few, sizeof few / sizeof *few, otherwise, by);
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
    else if (strcmp(how, "lets-record") == 0)
        filter_all_but(enough, sizeof enough / sizeof *enough, SECCOMP_RET_KILL_PROCESS, 0);
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

// So much that tables of the recorder grow.
static void *much(void *arg)
{
    enum { BLOCKS = 20000 };
    void **all = malloc(BLOCKS * sizeof *all);
    for (int i = 0; i < BLOCKS; i++)
        CHECK((all[i] = malloc(16 + i % 500)) != NULL);
    for (int i = 0; i < BLOCKS; i += 2)
        CHECK((all[i] = realloc(all[i], 700)) != NULL);
    for (int i = 0; i < BLOCKS; i++)
        free(all[i]);
    free(all);
    return arg;
}

static void allocates_and_ends(const char *how)
{
    if (strcmp(how, "lets-record") == 0) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, much, NULL) == 0);
        much(NULL);
        CHECK(pthread_join(other, NULL) == 0);
    }
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
            allocates_and_ends(argv[i + 1]);
        }
        pid_t child = fork();
        if (child == 0) {
            shut_in(argv[i]);
            allocates_and_ends(argv[i]);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
