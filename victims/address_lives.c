// expect: live fn=grow_more kind=realloc count=1 bytes=600000
// expect: live fn=second count=0
// expect: allocs fn=churn count=4700
// A block that moves twice, and another one where it was. With the argument `stop` the program stops itself twice, so that
// its ledger can be copied: after 800 of the short-lived blocks, after 900 more, and ends after 3,000 more.
#include "victim.h"

CALL_SITE void *first(void) { return opaque(malloc(1000)); }
CALL_SITE void *grow(void *p) { return opaque(realloc(p, 5000)); }
CALL_SITE void *grow_more(void *p) { return opaque(realloc(p, 600000)); }
CALL_SITE void *second(void) { return opaque(malloc(1000)); }
CALL_SITE void end_second(void *p)
{
    free(p);
    // No jump instead of a call: the frame is wanted.
    opaque(NULL);
}
CALL_SITE void churn(int count)
{
    for (int i = 0; i < count; i++)
        free(opaque(malloc(64)));
}

int main(int argc, char **argv)
{
    int stops = argc > 1 && strcmp(argv[1], "stop") == 0;
    char *p = first();
    char *behind = opaque(malloc(24));
    p = grow(p);
    char *further = opaque(malloc(24));
    p = grow_more(p);
    end_second(second());
    churn(800);
    if (stops)
        raise(SIGSTOP);
    churn(900);
    if (stops)
        raise(SIGSTOP);
    churn(3000);
    opaque(p);
    opaque(behind);
    opaque(further);
    return 0;
}
