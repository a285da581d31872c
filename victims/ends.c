// Children that live for an instant, and end in every way that there is; each is waited for at once. A child that has its parent's memory ends
// as well, which says nothing of its parent.
// expect: live fn=main count>=1
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *volatile kept;

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);                                               \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

static void changes_its_mind(void) { _exit(17); }

// Ends in the way of this number; comes back if that is coming back from main.
static void end(int way)
{
    kept = malloc(100 + way);
    switch (way) {
    case 11: exit(11);
    case 12: _exit(12);
    case 13: _Exit(13);
    case 14: quick_exit(14);
    case 15: syscall(SYS_exit_group, 15);
    case 16: exit(256 + 16); // of which eight bits are told
    case 17: atexit(changes_its_mind); exit(1);
    case 18: raise(SIGKILL);
    }
}

// A child that has no ledger, for it allocates nothing, and may call nothing any more but its end.
static void ends_in_a_sandbox(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    _exit(21);
}

int main(int count, char **words)
{
    kept = malloc(64);
    CHECK(kept != NULL);
    if (count == 2 && strcmp(words[1], "returns") == 0)
        return 20;
    for (int way = 11; way <= 18; way++) {
        pid_t pid = fork();
        if (pid == 0) {
            end(way);
            _exit(98);
        }
        int got = -1;
        CHECK(pid > 0 && waitpid(pid, &got, 0) == pid);
        CHECK(way == 18 ? WIFSIGNALED(got) : WEXITSTATUS(got) == way);
    }
    char *argv[] = {words[0], "returns", NULL};
    pid_t pid = -1;
    int got = -1;
    CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0);
    CHECK(waitpid(pid, &got, 0) == pid && WEXITSTATUS(got) == 20);
    pid = vfork();
    if (pid == 0)
        _exit(19);
    CHECK(waitpid(pid, &got, 0) == pid && WEXITSTATUS(got) == 19);
    pid = fork();
    if (pid == 0)
        ends_in_a_sandbox();
    CHECK(waitpid(pid, &got, 0) == pid && WIFEXITED(got) && WEXITSTATUS(got) == 21);
    free(malloc(10));
}
