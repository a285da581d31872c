// flags: -Wl,-init,victim_init -Wl,-fini,victim_fini
// expect: live fn=leak_in_init kind=malloc count=4 bytes=68
// malloc from the functions of DT_INIT and DT_FINI, which the loader calls itself.
#include "victim.h"

static void *block;
static int made;
CALL_SITE void leak_in_init(void)
{
    for (int i = 0; i < 4; i++, made++)
        opaque(malloc(17));
}
EXTERN_C void victim_init(void)
{
    leak_in_init();
    block = malloc(500);
}
EXTERN_C void victim_fini(void) { free(block); }

int main(void)
{
    // crt1 does not call DT_INIT of the executable in every libc; then nothing is tested and the number says so.
    printf("made %d\n", made);
    return 0;
}
