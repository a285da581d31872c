// flags: -fno-omit-frame-pointer
// losses: stacks_guessed stacks_broken
// Code made at run time and made anew at the same address with another frame, or in memory that was mapped anew; nobody is told.
// What called it can only be guessed. The guess is right where it has a frame pointer, as everything else here has, and where it does nothing
// behind the call but give its room on the stack back.
//
// Marks: 9,000 + caller with a frame pointer, 9,010 + caller without, 9,020 + caller with something else in rbp.
#include "unwind_machine_code.h"

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 1500, CALLERS = 3 };

CALL_SITE void jit_mark(size_t mark) { MARK(mark); }

static unsigned char *code;
#define CALLER(number)                                     \
    CALL_SITE void jit_caller_##number(size_t mark, long odd) \
    {                                                      \
        char room[16 + 32 * number];                       \
        opaque(room);                                      \
        ((machine_code *)code)(mark, jit_mark, odd);       \
        __asm__ volatile("# " #number);                    \
    }
CALLER(0)
CALLER(1)
CALLER(2)
static void (*const callers[CALLERS])(size_t mark, long odd) = {jit_caller_0, jit_caller_1, jit_caller_2};

CALL_SITE void jit_walk(uint32_t way, long odd)
{
    static const unsigned first_of[] = {[PLAIN_FRAME] = 9010, [FRAME_POINTER] = 9000, [ODD_FRAME_POINTER] = 9020};
    unsigned shape = way % 3, caller = (way >> 8) % CALLERS;
    if (way >> 4 & 1)
        CHECK(map_code(code, MAP_FIXED) == code);
    make_machine_code(code, (enum machine_shape)shape, (way >> 16) % 8 * 64);
    callers[caller](first_of[shape] + caller, odd);
}

int main(void)
{
    uint32_t random = 22695477;
    // On this stack, above it, on the heap, in code, nowhere.
    static long somewhere[8];
    long odd[] = {0, 1, 0, (long)somewhere, (long)jit_walk, -8, 0x7ffffffffff8, 0};
    code = map_code(NULL, 0);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t way = next_random(&random);
        odd[0] = (long)&random + (long)(way >> 20) * 8;
        jit_walk(way, odd[(way >> 13) % 8]);
    }
    printf("marks %d\n", ROUNDS);
    return 0;
}
