// A program that makes nearly all of its blocks at one place, and a few at twenty others; with `bad`, what is made there is written one
// byte too far. Where one block in so many is guarded, those twenty are to be among them.
#include "../../victims/victim.h"

CALL_SITE void wrong(char *block, int is_bad)
{
    if (is_bad)
        block[64] = 1;
    opaque(block);
}

#define PLACE(n)                                                                      \
    CALL_SITE void place_##n(int is_bad)                                              \
    {                                                                                 \
        char *block = opaque(malloc(opaque_size(64)));                                \
        wrong(block, is_bad);                                                         \
        free(block);                                                                  \
        opaque(NULL);                                                                 \
    }
#define FIVE(n) PLACE(n##0) PLACE(n##1) PLACE(n##2) PLACE(n##3) PLACE(n##4)
FIVE(a) FIVE(b) FIVE(c) FIVE(d)
#define NAMES(n) place_##n##0, place_##n##1, place_##n##2, place_##n##3, place_##n##4

static long resident_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    }
    fclose(status);
    return kib;
}

int main(int count, char **words)
{
    void (*const places[])(int) = {NAMES(a), NAMES(b), NAMES(c), NAMES(d)};
    static char *held[256];
    int is_bad = count > 1 && strcmp(words[1], "bad") == 0;
    for (long round = 0; round < 2000000; round++) {
        char **place = &held[round % 256];
        free(*place);
        *place = malloc((size_t)(round % 500));
        CHECK(*place != NULL);
        if (round % 500 != 0)
            **place = 1;
        if (round % 100000 == 50000)
            places[round / 100000](is_bad);
    }
    for (int i = 0; i < 256; i++)
        free(held[i]);
    CHECK(resident_kib() < 80 << 10);
    puts("done");
    return 0;
}
