// Makes children one after the other, and says what each took: `fork N` (each allocates and frees once), `spawn N PROGRAM`.
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static double used_us(int who)
{
    struct rusage use;
    getrusage(who, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 + use.ru_utime.tv_usec + use.ru_stime.tv_usec;
}

static pid_t begin(char **words)
{
    pid_t pid = -1;
    if (strcmp(words[0], "spawn") == 0) {
        char *arguments[] = {words[2], NULL};
        return posix_spawn(&pid, words[2], NULL, NULL, arguments, environ) == 0 ? pid : -1;
    }
    pid = fork();
    if (pid == 0) {
        void *volatile block = malloc(100);
        free(block);
        _exit(0);
    }
    return pid;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "spawn") == 0 && argc < 4)) {
        fputs("children fork N, or children spawn N PROGRAM\n", stderr);
        return 2;
    }
    int count = atoi(argv[2]);
    void *volatile kept = malloc(1000);
    double wall = wall_us(), used = used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN);
    for (int i = 0; i < count; i++) {
        int status = -1;
        pid_t pid = begin(argv + 1);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            perror("a child");
            return 1;
        }
    }
    printf("%.1f %.1f\n", (wall_us() - wall) / count, (used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN) - used) / count);
    free(kept);
    return 0;
}
