// Code made at run time, without unwind tables: calls a function from a frame of a given size. The call's return address is
// the same for all shapes and sizes.
#ifndef UNWIND_MACHINE_CODE_H
#define UNWIND_MACHINE_CODE_H
#include "victim.h"

enum machine_shape { PLAIN_FRAME, FRAME_POINTER, ODD_FRAME_POINTER };
enum { MACHINE_CALL_AT = 32, MACHINE_RETURN_AT = 34 };

typedef void machine_code(size_t mark, void (*function)(size_t), long odd);

// Writes it to `at`. `frame` is a multiple of 16.
static __attribute__((unused)) void make_machine_code(unsigned char *at, enum machine_shape shape, uint32_t frame)
{
    unsigned char *code = at;
    memset(code, 0x90, MACHINE_CALL_AT);
    if (shape == PLAIN_FRAME) {
        frame += 8;
    } else {
        *code++ = 0x55; // push %rbp
        if (shape == FRAME_POINTER)
            memcpy(code, "\x48\x89\xe5", 3); // mov %rsp, %rbp
        else
            memcpy(code, "\x48\x89\xd5", 3); // mov %rdx, %rbp
        code += 3;
    }
    memcpy(code, "\x48\x81\xec", 3); // sub $frame, %rsp
    memcpy(code + 3, &frame, 4);
    code = at + MACHINE_CALL_AT;
    memcpy(code, "\xff\xd6", 2); // call *%rsi
    code += 2;
    memcpy(code, "\x48\x81\xc4", 3); // add $frame, %rsp
    memcpy(code + 3, &frame, 4);
    code += 7;
    if (shape != PLAIN_FRAME)
        *code++ = 0x5d; // pop %rbp
    *code = 0xc3;
}

// A page for code, preferably there.
static __attribute__((unused)) unsigned char *map_code(void *at, int flags)
{
    unsigned char *got = mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

#endif
