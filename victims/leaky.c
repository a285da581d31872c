// run:
// run: 5000
// expect-run 1: live fn=copy_name kind=malloc count=100
// expect-run 1: live fn=make_cache kind=calloc count=1 bytes=100000
// expect-run 2: live fn=copy_name kind=malloc count=5000
// A program that frees most of what it takes: of ARG1 lines (default 100) it forgets a copy each, in small blocks, and a
// cache is left to the end. What it prints leaves the C library's buffer behind as well.
#include "victim.h"

CALL_SITE char *copy_name(const char *name)
{
    char *copy = opaque(malloc(strlen(name) + 1));
    CHECK(copy != NULL);
    return strcpy(copy, name);
}

CALL_SITE void read_lines(long lines)
{
    for (long i = 0; i < lines; i++) {
        char name[32];
        snprintf(name, sizeof name, "line %ld", i);
        opaque(copy_name(name));
        free(opaque(malloc(200)));
    }
}

CALL_SITE void *make_cache(void) { return opaque(calloc(1000, 100)); }

int main(int argc, char **argv)
{
    long lines = arg_number(argc, argv, 1, 100);
    CHECK(make_cache() != NULL);
    read_lines(lines);
    printf("%ld lines\n", lines);
    return 0;
}
