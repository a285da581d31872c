// The proof that a thread is still recorded after something unusual: exactly five blocks of 77 bytes, never freed.
#ifndef LATER_BLOCKS_H
#define LATER_BLOCKS_H
#include "victim.h"

EXTERN_C void *volatile later_block_list[5];
void *volatile later_block_list[5];

CALL_SITE void later_blocks(void)
{
    for (int i = 0; i < 5; i++) {
        char *p = (char *)malloc(77);
        CHECK(p != NULL);
        memset(p, i, 77);
        later_block_list[i] = opaque(p);
    }
}

#endif
