// flags: -fno-omit-frame-pointer
// losses: stacks_guessed
// Code made at run time that stays, as in engines that compile: what lies on the stack outside of it is remembered as anything
// else. Two pieces of it call each other in turn, down to different depths, and some allocations are made between.
//
// Marks: 9,100 + depth.
#include "unwind_machine_code.h"

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 300, DEPTHS = 12, SPACE = 128 };

static unsigned char *code;
static int levels;

CALL_SITE void steady_level(size_t mark);

CALL_SITE void steady_call(size_t mark)
{
    levels--;
    ((machine_code *)(code + levels % 2 * SPACE))(mark, steady_level, 0);
    levels++;
}

CALL_SITE void steady_level(size_t mark)
{
    if (levels > 0)
        steady_call(mark);
    else
        for (int i = 0; i < 4; i++)
            MARK(mark);
    __asm__ volatile("");
}

int main(void)
{
    code = map_code(NULL, 0);
    make_machine_code(code, FRAME_POINTER, 64);
    make_machine_code(code + SPACE, FRAME_POINTER, 192);
    for (int i = 0; i < ROUNDS; i++) {
        levels = i / 4 % DEPTHS;
        steady_level(9100 + levels);
    }
    printf("marks %d\n", ROUNDS * 4);
    return 0;
}
