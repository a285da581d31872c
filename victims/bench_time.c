// flags: -O2
// run: => 2
// What `cargo xtask bench` measures with: runs a program, waits for it and for all that it started, and writes to FILE
// what they took together.
//
//     bench_time FILE LIMIT PROGRAM [ARGUMENT]...
//
// LIMIT is in seconds; then all of them are killed. FILE gets one line, times in microseconds:
//     user=N sys=N wall=N maxrss_kib=N status=N
// `wall` is until the last of them has ended, `maxrss_kib` what the largest one had, `status` that of PROGRAM as
// waitpid gives it. Processes whose parent has gone become ours, so that none is missed.
#include "victim.h"
#include <sys/prctl.h>
#include <sys/resource.h>

static pid_t program;

// PROGRAM leads a process group, and nothing here leaves it.
static void kill_all(int signal)
{
    kill(-program, SIGKILL);
    if (signal != SIGALRM)
        _exit(128 + signal);
}

// A tool that goes astray takes all memory there is. Then it is the one to be killed, and not what else runs here.
static void fall_first(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        CHECK(write(fd, "1000", 4) == 4);
        close(fd);
    }
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long long us(struct timeval span) { return span.tv_sec * 1000000LL + span.tv_usec; }

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_time FILE LIMIT PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    uint64_t start_us = now_us();
    program = fork();
    CHECK(program >= 0);
    if (program == 0) {
        setpgid(0, 0);
        fall_first();
        execvp(argv[3], argv + 3);
        fprintf(stderr, "bench_time: %s: %s\n", argv[3], strerror(errno));
        _exit(127);
    }
    setpgid(program, program);
    struct sigaction action = {.sa_handler = kill_all, .sa_flags = SA_RESTART};
    for (const int *signal = (const int[]){SIGALRM, SIGINT, SIGTERM, SIGHUP, 0}; *signal != 0; signal++)
        CHECK(sigaction(*signal, &action, NULL) == 0);
    alarm(atoi(argv[2]));

    int status = 0, of_program = 0;
    for (pid_t ended; (ended = wait(&status)) > 0;)
        of_program = ended == program ? status : of_program;
    CHECK(errno == ECHILD);
    uint64_t wall_us = now_us() - start_us;

    struct rusage used;
    CHECK(getrusage(RUSAGE_CHILDREN, &used) == 0);
    FILE *out = fopen(argv[1], "w");
    CHECK(out != NULL);
    fprintf(out, "user=%lld sys=%lld wall=%llu maxrss_kib=%ld status=%d\n", us(used.ru_utime), us(used.ru_stime),
            (unsigned long long)wall_us, used.ru_maxrss, of_program);
    CHECK(fclose(out) == 0);
    return 0;
}
