// A parent that makes a buffer, and a child that writes one byte too many into it.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *make_buffer(void)
{
    return calloc(1, 100);
}

static void fill(char *buffer, size_t bytes)
{
    memset(buffer, '-', bytes);
}

int main(void)
{
    char *buffer = make_buffer();
    if (fork() == 0) {
        fill(buffer, 101);
        free(buffer);
        exit(0);
    }
    wait(NULL);
    free(buffer);
    return 0;
}
