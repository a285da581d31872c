// Copies between ranges of one block that have bytes in common, and a size below zero; `good` does the same where nothing is wrong with
// it: with `memmove`, of ranges that lie beside each other, of a range onto itself, and with a size of a block.
#include "../../victims/victim.h"
#include <wchar.h>

enum { SIZE = 64 };

CALL_SITE void copies(char *block, int is_bad)
{
    memcpy(block + 8, block, opaque_size(is_bad ? 16 : 8));
    if (!is_bad) {
        memmove(block + 8, block, opaque_size(16));
        memcpy(block, opaque(block), opaque_size(SIZE));
    }
}
CALL_SITE void copies_text(char *block, int is_bad)
{
    strcpy(block + (is_bad ? 4 : 12), block);
}
CALL_SITE void appends_text(char *block, int is_bad)
{
    strcat(block, block + (is_bad ? 4 : 32));
}
CALL_SITE void copies_wide(char *block, int is_bad)
{
    wchar_t *wide = (wchar_t *)(void *)block;
    wmemcpy(wide, wide + 2, opaque_size(is_bad ? 3 : 2));
}
CALL_SITE void compares(char *block, int is_bad)
{
    static const char other[SIZE] = "y";
    CHECK(memcmp(block, other, opaque_size(is_bad ? (size_t)-5 : SIZE)) != 0);
}

int main(int count, char **words)
{
    void (*const all[])(char *, int) = {copies, copies_text, appends_text, copies_wide, compares};
    CHECK(count == 2);
    int is_bad = strcmp(words[1], "bad") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *block = (char *)opaque(calloc(1, SIZE));
        CHECK(block != NULL);
        strcpy(block, "a text");
        all[i](block, is_bad);
        free(block);
    }
    puts("done");
    return 0;
}
