// flags: -pthread
// run:
// run: raw
// expect: live fn=kept_block kind=malloc count=20000 bytes=2000000
// expect: live fn=in_thread kind=malloc count=5000
// A program that forbids itself to read the processor's time stamp counter, by prctl or (ARG1 = raw) through syscall, and allocates on,
// for longer than the kernel's coarse clock stands still. Children of a thread inherit the ban.
#include "victim.h"
#include <sys/prctl.h>
#include <sys/syscall.h>

CALL_SITE void kept_block(void) { *(char *)opaque(malloc(100)) = 1; }

CALL_SITE void *in_thread(void *ignored)
{
    for (int i = 0; i < 5000; i++)
        *(char *)opaque(malloc(50)) = 1;
    return ignored;
}

int main(int argc, char **argv)
{
    int mode = 0;
    if (argc > 1 && strcmp(argv[1], "raw") == 0)
        CHECK(syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    else
        CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode == PR_TSC_SIGSEGV);
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 1000; j++)
            kept_block();
        usleep(2000);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    errno = 0;
    CHECK(prctl(PR_SET_TSC, 77, 0, 0, 0) == -1 && errno == EINVAL);
    printf("no counter\n");
    return 0;
}
