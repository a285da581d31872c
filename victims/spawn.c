// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// posix_spawn, system and popen: children made inside libc.
#include "later_blocks.h"
#include <spawn.h>

extern char **environ;

int main(void)
{
    for (int i = 0; i < 10; i++) {
        pid_t child;
        char *argv[] = {"sh", "-c", "exit 3", NULL};
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0);
        reap(child, 3);
        CHECK(posix_spawnp(&child, "no-such-program-here", NULL, NULL, argv, environ) == ENOENT);
    }
    CHECK(system("exit 4") == 4 << 8);
    FILE *f = popen("echo from a pipe", "r");
    CHECK(f != NULL);
    char line[100] = "";
    CHECK(fgets(line, sizeof line, f) != NULL);
    CHECK(pclose(f) == 0);
    later_blocks();
    printf("%s", line);
    return 0;
}
