// flags: -pthread
// run: return
// run: exit => 3
// run: _exit => 4
// run: _Exit => 5
// run: quick_exit => 6
// run: thread_exit => 7
// run: main_thread_ends => 8
// run: exit_group => 9
// run: abort => signal 6
// run: kill => signal 9
// run: term => signal 15
// run: segv => signal 11
// run: exec_fail => 10
// expect: live fn=leak_seven kind=malloc count=7 bytes=777
// Each way for a process to end, with a second thread busy allocating. ARG1 names the way.
#include "victim.h"
#include <sys/resource.h>
#include <sys/syscall.h>

static volatile long rounds;
static const char *way;

static void *busy(void *arg)
{
    uint32_t seed = 5;
    for (;;) {
        free(opaque(malloc(next_random(&seed) % 1000)));
        rounds++;
        if (rounds == 2000 && strcmp(way, "thread_exit") == 0)
            exit(7);
        if (rounds == 200000 && strcmp(way, "main_thread_ends") == 0)
            exit(8);
    }
    return arg;
}
static void at_exit(void) { free(opaque(malloc(10))); }

CALL_SITE void leak_seven(void)
{
    for (int i = 0; i < 7; i++)
        memset(opaque(malloc(111)), 1, 111);
}

int main(int argc, char **argv)
{
    way = argc > 1 ? argv[1] : "return";
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    printf("%s\n", way);
    fflush(stdout);
    atexit(at_exit);
    at_quick_exit(at_exit);
    leak_seven();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, busy, NULL) == 0);
    while (rounds < 1000)
        sched_yield();
#define WAY(name) if (strcmp(way, name) == 0)
    WAY("return") return 0;
    WAY("exit") exit(3);
    WAY("_exit") _exit(4);
    WAY("_Exit") _Exit(5);
    WAY("quick_exit") quick_exit(6);
    WAY("thread_exit") for (;;) pause();
    WAY("main_thread_ends") pthread_exit(NULL);
    WAY("exit_group") syscall(SYS_exit_group, 9);
    WAY("abort") abort();
    WAY("kill") kill(getpid(), SIGKILL);
    WAY("term") kill(getpid(), SIGTERM);
    WAY("segv") *(volatile int *)opaque(NULL) = 1;
    WAY("exec_fail")
    {
        execl("/nonexistent/program", "x", (char *)NULL);
        _exit(errno == ENOENT ? 10 : 1);
    }
    for (;;)
        pause();
}
