// flags: -pthread
// expect-image 1: live fn=first_image_leak kind=malloc count=3 bytes=33
// expect-image 2: live fn=second_image_leak kind=malloc count=4 bytes=88
// expect: live fn=last_image_leak kind=malloc count=7 bytes=777
// The same process becomes a new program three times (with a second thread busy): one ledger for each image.
#include "victim.h"

static volatile long rounds;

static void *busy(void *arg)
{
    for (;;) {
        free(opaque(malloc(70)));
        rounds++;
    }
    return arg;
}
CALL_SITE void *first_image_leak(void) { return opaque(malloc(11)); }
CALL_SITE void *second_image_leak(void) { return opaque(malloc(22)); }
CALL_SITE void *last_image_leak(void) { return opaque(malloc(111)); }

int main(int argc, char **argv)
{
    int image = argc > 1 ? atoi(argv[1]) : 1;
    char next[12];
    snprintf(next, sizeof next, "%d", image + 1);
    switch (image) {
    case 1:
        for (int i = 0; i < 3; i++)
            first_image_leak();
        break;
    case 2:
        for (int i = 0; i < 4; i++)
            second_image_leak();
        break;
    default:
        for (int i = 0; i < 7; i++)
            last_image_leak();
        printf("image %d\n", image);
        return 0;
    }
    pthread_t t;
    CHECK(pthread_create(&t, NULL, busy, NULL) == 0);
    while (rounds < 1000)
        sched_yield();
    execl("/proc/self/exe", argv[0], next, (char *)NULL);
    CHECK(!"exec failed");
}
