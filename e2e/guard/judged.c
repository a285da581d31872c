// Calls of the C library past an end of a block, where much else is going on: in a forked child, in a signal handler on a small stack of
// its own, again and again. And calls that must be what they are, though somebody stands in front of them: a thread that is cancelled in
// `read`, `errno`, arguments of all kinds, a stream whose reader jumps away.
#define _GNU_SOURCE
#include "../../victims/victim.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

enum { SIZE = 48 };
static char many[256], small[8192];
static char *block;

CALL_SITE void wrong(char *to, size_t bytes)
{
    errno = 77;
    memcpy(to, many, bytes);
    CHECK(errno == 77);
}
CALL_SITE void shows(char *to, const char *format, ...)
{
    va_list all;
    va_start(all, format);
    errno = 78;
    vsprintf(to, format, all);
    CHECK(errno == 78);
    va_end(all);
}
static void on_signal(int signal)
{
    (void)signal;
    wrong(block, SIZE + 1);
}
static void cleans(void *unused)
{
    (void)unused;
    CHECK(write(STDOUT_FILENO, "cleaned\n", 8) == 8);
}
static void *reads(void *from)
{
    char *mine = (char *)malloc(100);
    pthread_cleanup_push(cleans, NULL);
    CHECK(read(*(int *)from, mine, 100) < 0);
    pthread_cleanup_pop(0);
    return NULL;
}

static jmp_buf away;
static ssize_t jumps(void *cookie, char *to, size_t bytes)
{
    (void)cookie, (void)to, (void)bytes;
    longjmp(away, 1);
}

int main(void)
{
    block = (char *)malloc(SIZE);
    char *freed = (char *)malloc(30);
    free(freed);

    // One error, found three times; what it has written is not told when the program ends.
    for (size_t i = 0; i < opaque_size(3); i++)
        wrong(block, SIZE + 1);

    // A line each on standard error, once for each place.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < opaque_size(3); i++)
            wrong(block, SIZE + 2 + i);
        char *other = (char *)malloc(10);
        strcpy(other, "0123456789");
        free(other);
        memset(other, 0, 4);
        snprintf(many, sizeof many, "%s", freed);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);

    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);

    int ends[2];
    pthread_t thread;
    void *result;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, reads, ends) == 0);
    usleep(20000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);

    cookie_io_functions_t functions = {.read = jumps};
    FILE *stream = fopencookie(NULL, "r", functions);
    char *line = (char *)malloc(100);
    if (setjmp(away) == 0)
        CHECK(fread(line, 1, 100, stream) == 0);
    free(line);

    char *text = (char *)malloc(200), *made;
    shows(text, "%d %s %.2f %Lf %s %s %s %5.1f|%*d|%.*s|%c", 1, "x", 1.5, 2.5L, "b", "c", "d", 3.25, 4, 5, 2, "abcdef", 'z');
    puts(text);
    CHECK(asprintf(&made, "%2$s %1$d %3$f %4$s %5$s %6$s %7$s", 7, "two", 2.5, text, "e", "f", "g") > 0);
    puts(made);
    printf("%s %d %d %d %d %d %d %f %s\n", made, 1, 2, 3, 4, 5, 6, 7.5, text);
    free(made);
    free(text);
    free(block);
    return 0;
}
