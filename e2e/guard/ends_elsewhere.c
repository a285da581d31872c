// Two blocks are damaged, and the program ends where its first thread has ended before: ARG1 says how. `refused`: the first thread
// ends it, under a filter of system calls that refuses `mincore`.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *volatile kept[2];
static const char *how;

static void *ends(void *nothing)
{
    usleep(50000);
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "fault") == 0)
        *(volatile int *)nothing = 0;
    return 0;
}

static void refuse_mincore(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(99);
}

int main(int argc, char **argv)
{
    how = argc > 1 ? argv[1] : "return";
    kept[0] = malloc(20);
    kept[0][20] = 1;
    kept[1] = malloc(24);
    kept[1][-1] = 3;
    if (strcmp(how, "refused") == 0) {
        refuse_mincore();
        return 0;
    }
    pthread_t thread;
    if (pthread_create(&thread, 0, ends, 0) != 0)
        return 98;
    pthread_exit(0);
}
