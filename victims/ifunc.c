// expect: live fn=leak_in_resolver kind=malloc count=2 bytes=46
// An IFUNC resolver runs while the loader still relocates the program: no constructor has run, libc is not yet initialised.
#include "victim.h"

static int made;
static void *kept[2], *freed_later;

CALL_SITE void leak_in_resolver(void)
{
    for (int i = 0; i < 2; i++, made++)
        kept[i] = opaque(malloc(23));
}
static int answer(void) { return 42; }
static int (*resolve(void))(void)
{
    if (made == 0) {
        leak_in_resolver();
        free(opaque(calloc(5, 5)));
        freed_later = opaque(realloc(opaque(malloc(10)), 100));
    }
    return answer;
}
int question(void) __attribute__((ifunc("resolve")));

int main(void)
{
    CHECK(question() == 42);
    CHECK(made == 2 && kept[0] != NULL && kept[1] != NULL);
    free(freed_later);
    free(opaque(malloc(1000)));
    printf("answer %d\n", question());
    return 0;
}
