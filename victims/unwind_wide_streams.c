// Streams with a charset of their own: libc loads its converter, and unloads it in fclose, with no call that anybody could
// see. Each is opened by a function of its own, so that the ledger must name that charset's module and no other.
#include "victim.h"

enum { ROUNDS = 300 };

static int opened;
#define CHARSET(number, name)                                              \
    CALL_SITE void open_charset_##number(void)                             \
    {                                                                      \
        FILE *stream = fopen("/dev/null", "r,ccs=" name);                  \
        if (stream == NULL)                                                \
            return; /* the converter may not be installed */               \
        opened++;                                                          \
        CHECK(fclose(stream) == 0);                                        \
    }
CHARSET(0, "UTF-16")
CHARSET(1, "UTF-32")
CHARSET(2, "UNICODE")
CHARSET(3, "ISO-2022-JP")
CHARSET(5, "ISO646-DE")

int main(void)
{
    static void (*const charsets[])(void) = {open_charset_0, open_charset_1, open_charset_2, open_charset_3, open_charset_5};
    uint32_t random = 1597334677;
    for (int i = 0; i < ROUNDS; i++)
        charsets[next_random(&random) % (sizeof charsets / sizeof *charsets)]();
    printf("opened %d\n", opened);
    return 0;
}
