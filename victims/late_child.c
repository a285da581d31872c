// run: /
// A child that allocates nothing until a file is there, by which time its parent, and whoever records it, has ended.
// expect: live fn=main count>=1
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

int main(int count, char **words)
{
    kept = malloc(10);
    if (kept == NULL || count != 2)
        return 1;
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0;
    for (int i = 0; i < 60000 && access(words[1], F_OK) != 0; i++)
        usleep(1000);
    for (int i = 0; i < 5; i++)
        kept = malloc(100);
    _exit(0);
}
