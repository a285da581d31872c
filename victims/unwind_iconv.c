// Converters that libc loads and unloads on its own, each in place of another one. Those chosen here allocate when they begin.
// Every charset is opened by a function of its own, so that the ledger must name that charset's module and no other.
#include "victim.h"
#include <iconv.h>

enum { ROUNDS = 600 };

static int opened;
#define CHARSET(number, name)                                 \
    CALL_SITE void open_charset_##number(void)                \
    {                                                         \
        iconv_t cd = iconv_open("UTF-8", name);               \
        if (cd == (iconv_t)-1)                                \
            return; /* it may not be installed */             \
        opened++;                                             \
        char in[] = "abcd", out[64];                          \
        char *from = in, *to = out;                           \
        size_t rest = 4, room = sizeof out;                   \
        iconv(cd, &from, &rest, &to, &room);                  \
        CHECK(iconv_close(cd) == 0);                          \
    }
CHARSET(0, "UTF-16")
CHARSET(1, "UTF-32")
CHARSET(2, "UNICODE")
CHARSET(3, "ISO-2022-JP")
CHARSET(4, "ISO-2022-CN-EXT")
CHARSET(5, "ISO646-DE")

int main(void)
{
    static void (*const charsets[])(void) = {open_charset_0, open_charset_1, open_charset_2,
                                             open_charset_3, open_charset_4, open_charset_5};
    uint32_t random = 1597334677;
    for (int i = 0; i < ROUNDS; i++)
        charsets[next_random(&random) % (sizeof charsets / sizeof *charsets)]();
    printf("opened %d\n", opened);
    return 0;
}
