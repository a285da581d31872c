// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// iconv_open loads and unloads gconv modules by libc's own means (no dlopen or dlclose call that a preload could see).
#include "later_blocks.h"
#include <iconv.h>

int main(void)
{
    static const char *const names[] = {"ISO-8859-15", "KOI8-R", "UTF-16", "SHIFT_JIS", "CP1252", "EUC-KR"};
    int opened = 0;
    for (int i = 0; i < 300; i++) {
        iconv_t cd = iconv_open("UTF-8", names[i % 6]);
        if (cd == (iconv_t)-1)
            continue; // the modules may not be installed
        opened++;
        char in[] = "abcd", out[64];
        char *from = in, *to = out;
        size_t a = 4, b = sizeof out;
        iconv(cd, &from, &a, &to, &b);
        free(opaque(malloc(60)));
        CHECK(iconv_close(cd) == 0);
    }
    later_blocks();
    printf("opened %d\n", opened);
    return 0;
}
