/* A program that writes a title over its arguments and what lies behind them, as servers do; then it forks a child, which does the same and
   allocates. titled TITLE [ARGUMENT...]: it says "." when that child has ended, allocates when its input ends, and ends.
   titled --daemon TITLE: the title takes the room of the environment, too; the child allocates when its parent has long ended. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the first argument to the end of the last. */
static void write_title(char **arguments, size_t room, const char *title)
{
    memset(arguments[0], 0, room);
    strncpy(arguments[0], title, room - 1);
}

__attribute__((noinline)) static void *own_block(size_t bytes)
{
    return malloc(bytes);
}

static void daemon_with(char **arguments, char **environment)
{
    char title[256] = "";
    char *end = arguments[0];
    strncpy(title, arguments[2], sizeof title - 1);
    for (char **one = environment; *one != NULL; one++)
        end = *one + strlen(*one) + 1;
    pid_t parent = getpid();
    write_title(arguments, (size_t)(end - arguments[0]), title);
    if (fork() != 0)
        _exit(0);
    while (getppid() == parent)
        usleep(1000);
    sleep(1);
    _exit(own_block(100) == NULL);
}

int main(int count, char **arguments, char **environment)
{
    if (count > 2 && strcmp(arguments[1], "--daemon") == 0)
        daemon_with(arguments, environment);
    char title[256] = "";
    size_t room = (size_t)(arguments[count - 1] - arguments[0]) + strlen(arguments[count - 1]) + 1;
    strncpy(title, arguments[1], sizeof title - 1);
    write_title(arguments, room, title);
    pid_t child = fork();
    if (child == 0) {
        write_title(arguments, room, "titled: worker of /srv/n.conf");
        _exit(own_block(100) == NULL);
    }
    int status = 1;
    char byte;
    if (waitpid(child, &status, 0) != child || write(1, ".", 1) != 1)
        return 1;
    while (read(0, &byte, 1) > 0) {
    }
    return status != 0 || own_block(200) == NULL;
}
