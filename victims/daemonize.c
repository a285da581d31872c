// expect: live fn=parent_leak kind=malloc count=3 bytes=300
// expect: live fn=daemon_leak count=0
// The double fork of a daemon: the grandchild closes every descriptor, takes the low numbers itself and works on. The first
// process waits for its word over a pipe, so that the output is the same each time.
#include "victim.h"

CALL_SITE void *parent_leak(void) { return opaque(malloc(100)); }
CALL_SITE void *daemon_leak(void) { return opaque(malloc(50)); }

int main(void)
{
    for (int i = 0; i < 3; i++)
        parent_leak();
    int pipe_fd[2];
    CHECK(pipe(pipe_fd) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setsid() >= 0);
        pid_t second = fork();
        CHECK(second >= 0);
        if (second > 0)
            _exit(0);
        int keep = pipe_fd[1];
        for (int fd = 0; fd < 64; fd++)
            if (fd != keep)
                close(fd);
        for (int fd = 0; fd < 3; fd++)
            if (open("/dev/null", O_RDWR) != fd)
                _exit(1);
        for (int i = 0; i < 20000; i++)
            *(char *)daemon_leak() = 1;
        char ok = 'k';
        if (write(keep, &ok, 1) != 1)
            _exit(1);
        exit(0);
    }
    reap(child, 0);
    close(pipe_fd[1]);
    char c[2] = {0, 0};
    CHECK(read(pipe_fd[0], c, 2) == 1 && c[0] == 'k');
    CHECK(read(pipe_fd[0], c, 1) == 0);
    printf("daemon worked\n");
    return 0;
}
