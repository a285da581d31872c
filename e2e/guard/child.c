// A program that does nothing wrong, but that its forked child writes behind a block: once for each argument. For `twice` it frees one
// twice instead.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
    pid_t child = fork();
    if (child == 0) {
        for (int i = 1; i < count; i++) {
            char *volatile block = malloc(40);
            if (strcmp(words[i], "twice") == 0)
                free(block);
            else
                block[40] = 1;
            free(block);
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    return status != 0;
}
