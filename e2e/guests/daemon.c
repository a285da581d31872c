// Becomes a daemon by two forks, closes what it has, and ends a little later: the file of its argument is there then.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

int main(int count, char **words)
{
    void *volatile block = malloc(100);
    if (count < 2 || !block)
        return 2;
    if (fork())
        exit(0);
    setsid();
    if (fork())
        _exit(0);
    void *volatile other = malloc(200);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    usleep(300000);
    int file = open(words[1], O_WRONLY | O_CREAT | O_EXCL, 0600);
    free(block);
    free(other);
    return file < 0;
}
