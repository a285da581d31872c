// Runs a command and lets one system call of it fail.
//
//   inject OUT WHO NUMBER NTH ERROR COMMAND…    the NTH call (from 1) of that number fails; NTH 0: none, they are counted
//
// WHO is `run`: the command line itself, from when it has read its arguments, and processes that it forks for its own work;
// or `recorder`: the library inside the program, known by the address of the call. OUT gets what was counted, a line `WHO
// NUMBER COUNT` each, and `failed` if the call was met. Ends as the command ends.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS = 4096, NUMBERS = 512 };
enum who { RUN, RECORDER, WHOS };
static const char *const names[WHOS] = {"run", "recorder"};

// A thread or process that is traced.
struct task {
    pid_t id;
    int is_program; // has become the program
    int begun;      // of the command line: has read its arguments
    int failing;    // the call that it is in is to fail
    unsigned long argument; // of that call, the first
    unsigned long low, high; // where the library lies, once it does
};

static struct task tasks[TASKS];
static long counts[WHOS][NUMBERS];

static struct task *task_of(pid_t id)
{
    struct task *vacant = NULL;
    for (int i = 0; i < TASKS; i++) {
        if (tasks[i].id == id)
            return &tasks[i];
        if (!tasks[i].id && !vacant)
            vacant = &tasks[i];
    }
    if (!vacant)
        exit(98);
    *vacant = (struct task){.id = id};
    return vacant;
}

static void find_library(struct task *task)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", task->id);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        char rights[8];
        if (strstr(line, "heapledger") && strstr(line, ".so") && sscanf(line, "%lx-%lx %7s", &low, &high, rights) == 3
            && strchr(rights, 'x')) {
            task->low = low;
            task->high = high;
        }
    }
    if (maps)
        fclose(maps);
}

// Calls that do not come back, or that are not for us to refuse: the kernel's refusal to execute is the program's. A thread
// that was not woken sleeps for ever; of the command line that is the C library's business, and never happens.
static int is_exempt(int own, long number)
{
    return (own == RUN && number == SYS_futex) || number == SYS_exit || number == SYS_exit_group || number == SYS_rt_sigreturn || number == SYS_execve
        || number == SYS_restart_syscall;
}

static int whose(struct task *task, const struct user_regs_struct *regs)
{
    if (task->is_program)
        return regs->rip >= task->low && regs->rip < task->high ? RECORDER : WHOS;
    return task->begun ? RUN : WHOS;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 97;
    int who = !strcmp(argv[2], "run") ? RUN : RECORDER;
    long number = atol(argv[3]), nth = atol(argv[4]), error = atol(argv[5]), failed = 0;
    pid_t first = fork();
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(argv[6], argv + 6);
        _exit(96);
    }
    int status, result = 0;
    waitpid(first, &status, __WALL);
    ptrace(PTRACE_SETOPTIONS, first, 0,
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC
            | PTRACE_O_EXITKILL);
    task_of(first);
    ptrace(PTRACE_SYSCALL, first, 0, 0);
    int execs = 0;
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
        if (id <= 0)
            continue;
        struct task *task = task_of(id);
        if (!WIFSTOPPED(status)) {
            if (id == first)
                result = status;
            *task = (struct task){0};
            if (id == first)
                break;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        long deliver = 0;
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
            unsigned long child;
            ptrace(PTRACE_GETEVENTMSG, id, 0, &child);
            struct task *new = task_of((pid_t)child);
            *new = *task;
            new->id = (pid_t)child;
            new->failing = 0;
        } else if (event == PTRACE_EVENT_EXEC) {
            // The first is the command line.
            task->is_program = execs++ > 0;
            task->low = task->high = 0;
        } else if (signal == (SIGTRAP | 0x80)) {
            struct user_regs_struct regs;
            ptrace(PTRACE_GETREGS, id, 0, &regs);
            long call = (long)regs.orig_rax;
            // The kernel says whether this is the entry or the exit. To count does not do: a new thread can have entered a
            // call before its parent's event tells of it.
            struct __ptrace_syscall_info stop = {0};
            ptrace(PTRACE_GET_SYSCALL_INFO, id, sizeof stop, &stop);
            if (stop.op == PTRACE_SYSCALL_INFO_ENTRY) {
                int own = whose(task, &regs);
                if (own != WHOS && call >= 0 && call < NUMBERS && !is_exempt(own, call)) {
                    counts[own][call]++;
                    if (own == who && call == number && counts[own][call] == nth) {
                        task->failing = 1;
                        failed = 1;
                        // `brk` says that it failed by the end that the heap has: so it is only asked for that.
                        task->argument = regs.rdi;
                        if (call == SYS_brk)
                            regs.rdi = 0;
                        else
                            regs.orig_rax = (unsigned long)-1;
                        ptrace(PTRACE_SETREGS, id, 0, &regs);
                    }
                }
                // What it does first when it has read its arguments.
                if (!task->is_program && call == SYS_rt_sigaction && regs.rdi == SIGXFSZ && regs.rsi)
                    task->begun = 1;
            } else if (stop.op == PTRACE_SYSCALL_INFO_EXIT) {
                if (task->failing) {
                    task->failing = 0;
                    regs.rdi = task->argument;
                    if (number != SYS_brk)
                        regs.rax = (unsigned long)-error;
                    ptrace(PTRACE_SETREGS, id, 0, &regs);
                }
                if (task->is_program && !task->low && call == SYS_mmap)
                    find_library(task);
            }
        } else if (!event && signal != SIGSTOP && signal != SIGTRAP) {
            deliver = signal;
        }
        ptrace(PTRACE_SYSCALL, id, 0, deliver);
    }
    FILE *out = fopen(argv[1], "w");
    for (int i = 0; out && i < WHOS; i++)
        for (int j = 0; j < NUMBERS; j++)
            if (counts[i][j])
                fprintf(out, "%s %d %ld\n", names[i], j, counts[i][j]);
    if (out) {
        fprintf(out, failed ? "failed\n" : "");
        fclose(out);
    }
    if (WIFSIGNALED(result)) {
        signal(WTERMSIG(result), SIG_DFL);
        kill(getpid(), WTERMSIG(result));
    }
    return WEXITSTATUS(result);
}
