// run: 20 1
// expect-run 1: live fn=keep_order kind=malloc count=200 bytes=20000
// expect-run 1: live fn=keep_item kind=malloc count=20 bytes=1000
// Grows for ARG1 rounds (default 20), ARG2 milliseconds apart (default 1): each keeps ten orders of 100 bytes and one item of 50,
// and allocates and frees a block of 10,000 bytes. For watching it; at the end of its rounds it is as it was, and ends.
// With a third argument it ends when its input does.
#include "victim.h"

CALL_SITE void *keep_order(void) { return opaque(malloc(100)); }
CALL_SITE void *keep_item(void) { return opaque(malloc(50)); }
CALL_SITE void churn(void) { free(opaque(malloc(10000))); }

int main(int argc, char **argv)
{
    long rounds = arg_number(argc, argv, 1, 20), pause = arg_number(argc, argv, 2, 1);
    for (long i = 0; i < rounds; i++) {
        for (int j = 0; j < 10; j++)
            CHECK(keep_order() != NULL);
        CHECK(keep_item() != NULL);
        churn();
        usleep(pause * 1000);
    }
    char byte;
    while (argc > 3 && read(0, &byte, 1) > 0)
        ;
    return 0;
}
