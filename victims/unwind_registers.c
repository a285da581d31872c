// Frames that are found by any register, or by a word of memory, and lie elsewhere each time although everything inside of
// them is equal: stack pointers, return addresses, functions. Only the register, where it was saved, or that word tells who
// the callers are; and what was there at the last call still stands on the stack, untouched.
//
// A mark is 40,000 + way, or 60,000 + 120 * inner way + outer way; a way is (hub * 3 + middle) * 4 + via.
#include "victim.h"

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 4000, HUBS = 10, MIDDLES = 3, VIAS = 4, WAYS = HUBS * MIDDLES * VIAS, GAP = 2048 };

// Through all of them: rdi the mark, rsi the middle, rdx where the stack is to go on, rax the hub.
__asm__(".text\n"
        ".macro FUNCTION name\n .globl \\name\n .type \\name, @function\n \\name: .cfi_startproc\n .endm\n"
        ".macro END name\n .cfi_endproc\n .size \\name, . - \\name\n .endm\n"

        // rcx the hub, r8 the via.
        "FUNCTION set_out\n"
        " sub $8, %rsp\n .cfi_def_cfa_offset 16\n"
        " mov %rcx, %rax\n call *%r8\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        "END set_out\n"

        // Callers whose frames are of different size, and two whose are not.
        ".macro VIA number, room\n"
        "FUNCTION via_\\number\n"
        " sub $\\room, %rsp\n .cfi_def_cfa_offset \\room + 8\n"
        " call *%rax\n"
        " add $\\room, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        "END via_\\number\n"
        ".endm\n"
        "VIA 0, 0x108\n VIA 1, 0x148\n VIA 2, 0x188\n VIA 3, 0x148\n"

        // The stack goes on at the same place from wherever it came.
        ".macro HUB name, register\n"
        "FUNCTION hub_\\name\n"
        " push %\\register\n .cfi_def_cfa_offset 16\n .cfi_offset %\\register, -16\n"
        " mov %rsp, %\\register\n"
        " .ifc \\name, expression\n .cfi_escape 0x0f, 2, 0x73, 16\n" // rbx + 16
        " .else\n .cfi_def_cfa_register %\\register\n .endif\n"
        " mov %rdx, %rsp\n"
        " call *%rsi\n"
        " mov %\\register, %rsp\n .cfi_def_cfa %rsp, 16\n"
        " pop %\\register\n .cfi_def_cfa_offset 8\n .cfi_restore %\\register\n ret\n"
        "END hub_\\name\n"
        ".endm\n"
        "HUB rbp, rbp\n HUB rbx, rbx\n HUB r12, r12\n HUB r13, r13\n HUB r14, r14\n HUB r15, r15\n"
        "HUB expression, rbx\n"

        // As gcc realigns a stack: rbp is the same each time, the frame's top is stored at rbp - 8.
        "FUNCTION hub_realigned\n"
        " lea 8(%rsp), %r10\n .cfi_def_cfa %r10, 0\n"
        " lea 48(%rdx), %rsp\n"
        " push -8(%r10)\n push %rbp\n mov %rsp, %rbp\n .cfi_escape 0x10, 6, 2, 0x76, 0\n"
        " push %r10\n .cfi_escape 0x0f, 3, 0x76, 0x78, 6\n"
        " sub $24, %rsp\n"
        " call *%rsi\n"
        " mov -8(%rbp), %r10\n .cfi_def_cfa %r10, 0\n"
        " mov (%rbp), %rbp\n .cfi_restore %rbp\n"
        " lea -8(%r10), %rsp\n .cfi_def_cfa %rsp, 8\n ret\n"
        "END hub_realigned\n"

        // As hand-written code does: the old stack pointer is stored at rsp + 16.
        "FUNCTION hub_stored\n"
        " mov %rsp, 16(%rdx)\n mov %rdx, %rsp\n .cfi_escape 0x0f, 5, 0x77, 16, 6, 0x23, 8\n"
        " call *%rsi\n"
        " mov 16(%rsp), %rsp\n .cfi_def_cfa %rsp, 8\n ret\n"
        "END hub_stored\n"

        // The frame's top is stored there.
        "FUNCTION hub_stored_top\n"
        " lea 8(%rsp), %r11\n mov %r11, 16(%rdx)\n mov %rdx, %rsp\n .cfi_escape 0x0f, 3, 0x77, 16, 6\n"
        " call *%rsi\n"
        " mov 16(%rsp), %rsp\n lea -8(%rsp), %rsp\n .cfi_def_cfa %rsp, 8\n ret\n"
        "END hub_stored_top\n"

        // Leaves the hub's register alone, or saves it at one place or another and uses it for something that looks alike.
        "FUNCTION middle_keeps\n"
        " sub $8, %rsp\n .cfi_def_cfa_offset 16\n"
        " call innermost\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        "END middle_keeps\n"
        ".macro MIDDLES register\n"
        "FUNCTION middle_high_\\register\n"
        " push %\\register\n .cfi_def_cfa_offset 16\n .cfi_offset %\\register, -16\n"
        " lea 0x40(%\\register), %\\register\n"
        " call innermost\n"
        " pop %\\register\n .cfi_def_cfa_offset 8\n .cfi_restore %\\register\n ret\n"
        "END middle_high_\\register\n"
        "FUNCTION middle_low_\\register\n"
        " lea -0x40(%\\register), %r11\n"
        " push %r11\n .cfi_def_cfa_offset 16\n"
        " push %\\register\n .cfi_def_cfa_offset 24\n .cfi_offset %\\register, -24\n"
        " push %r11\n .cfi_def_cfa_offset 32\n"
        " mov %r11, %\\register\n"
        " call innermost\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 24\n"
        " pop %\\register\n .cfi_def_cfa_offset 16\n .cfi_restore %\\register\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        "END middle_low_\\register\n"
        ".endm\n"
        "MIDDLES rbp\n MIDDLES rbx\n MIDDLES r12\n MIDDLES r13\n MIDDLES r14\n MIDDLES r15\n"

        // A second hub inside of the first; `inner` says where to.
        "FUNCTION middle_goes_on\n"
        " sub $8, %rsp\n .cfi_def_cfa_offset 16\n"
        " mov inner(%rip), %rsi\n mov inner + 8(%rip), %rdx\n mov inner + 16(%rip), %rax\n"
        " call *inner + 24(%rip)\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        "END middle_goes_on\n");

typedef void code(void);
void set_out(size_t mark, code *middle, void *goes_on, code *hub, code *via);
extern code via_0, via_1, via_2, via_3, hub_rbp, hub_rbx, hub_r12, hub_r13, hub_r14, hub_r15, hub_expression, hub_realigned,
    hub_stored, hub_stored_top, middle_keeps, middle_goes_on, middle_high_rbp, middle_low_rbp, middle_high_rbx,
    middle_low_rbx, middle_high_r12, middle_low_r12, middle_high_r13, middle_low_r13, middle_high_r14, middle_low_r14,
    middle_high_r15, middle_low_r15;

static code *const vias[VIAS] = {via_0, via_1, via_2, via_3};
static const struct {
    code *hub, *middles[MIDDLES];
} hubs[HUBS] = {
    {hub_rbp, {middle_keeps, middle_high_rbp, middle_low_rbp}},
    {hub_rbx, {middle_keeps, middle_high_rbx, middle_low_rbx}},
    {hub_r12, {middle_keeps, middle_high_r12, middle_low_r12}},
    {hub_r13, {middle_keeps, middle_high_r13, middle_low_r13}},
    {hub_r14, {middle_keeps, middle_high_r14, middle_low_r14}},
    {hub_r15, {middle_keeps, middle_high_r15, middle_low_r15}},
    {hub_expression, {middle_keeps, middle_high_rbx, middle_low_rbx}},
    {hub_realigned, {middle_keeps, middle_high_rbp, middle_low_rbp}},
    {hub_stored, {middle_keeps, middle_high_rbp, middle_low_rbp}},
    {hub_stored_top, {middle_keeps, middle_high_rbp, middle_low_rbp}},
};

struct {
    code *middle;
    void *goes_on;
    code *hub, *via;
} inner __attribute__((visibility("hidden")));

CALL_SITE void innermost(size_t mark) { MARK(mark); }

CALL_SITE void walk_by(unsigned way)
{
    unsigned hub = way / VIAS / MIDDLES, middle = way / VIAS % MIDDLES;
    char *goes_on = (char *)((uintptr_t)__builtin_frame_address(0) & -16) - GAP;
    set_out(40000 + way, hubs[hub].middles[middle], goes_on, hubs[hub].hub, vias[way % VIAS]);
}
CALL_SITE void walk_by_two(unsigned way, unsigned outer_way)
{
    unsigned hub = way / VIAS / MIDDLES, middle = way / VIAS % MIDDLES;
    char *goes_on = (char *)((uintptr_t)__builtin_frame_address(0) & -16) - GAP;
    inner.middle = hubs[hub].middles[middle];
    inner.goes_on = goes_on - GAP;
    inner.hub = hubs[hub].hub;
    inner.via = vias[way % VIAS];
    set_out(60000 + way * WAYS + outer_way, middle_goes_on, goes_on, hubs[outer_way / VIAS / MIDDLES].hub,
            vias[outer_way % VIAS]);
}

int main(void)
{
    uint32_t random = 362436069;
    unsigned way = 0, outer_way = 0;
    for (int i = 0; i < ROUNDS; i++) {
        // Often only the caller changes, which is seen nowhere but there.
        uint32_t turn = next_random(&random);
        if (turn % 8 == 0)
            way = (turn >> 8) % WAYS;
        else
            way = way - way % VIAS + (turn >> 8) % VIAS;
        if (turn % 16 < 2)
            outer_way = (turn >> 16) % WAYS;
        else
            outer_way = outer_way - outer_way % VIAS + (turn >> 16) % VIAS;
        if (turn >> 4 & 1)
            walk_by(way);
        else
            walk_by_two(way, outer_way);
    }
    printf("marks %d\n", ROUNDS);
    return 0;
}
