// run: decoys
// run: tables
// run: remembered
// losses: stacks_broken stacks_guessed
// Stacks that were read once and are partly gone now: the upper half of a coroutine's stack is taken away, a stack's
// neighbour is unmapped, the stack that was looked at last does not exist any more. Code without unwind tables that uses rbp
// for something, and tables that are wrong, point right there; and the same function is called at the same place by another
// one. Whoever believes what was readable before, faults.
//
// Marks: 6,000 to 6,005, all below `hole_mark`; what is further out nobody can know. 6,010 and 6,011 before and after the
// upper half of a stack went.
#include "unwind_switch.h"

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 30, PAGE = 4096, STACK = 32 * PAGE };

// No table: whoever walks here can only try rbp.
__asm__(".text\n.globl without_table\n.type without_table, @function\n"
        "without_table:\n push %rbp\n mov %rsi, %rbp\n call hole_mark\n pop %rbp\n ret\n"
        ".size without_table, . - without_table\n");
void without_table(size_t mark, void *decoy);
// A table that says that the frame ends 16 pages further up than it does.
__asm__(".text\n.globl wrong_table\n.type wrong_table, @function\n"
        "wrong_table: .cfi_startproc\n sub $8, %rsp\n .cfi_def_cfa_offset 16 * 4096 + 16\n call hole_mark\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n .size wrong_table, . - wrong_table\n");
void wrong_table(size_t mark);

static void *scheduler, *here;
static int marks;
CALL_SITE void hole_mark(size_t mark)
{
    MARK(mark);
    marks++;
}

static char *map(void *at, size_t size, int access)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0);
    char *got = mmap(at, size, access, flags, -1, 0);
    CHECK(got != MAP_FAILED && (at == NULL || got == at));
    return got;
}
static char *new_memory(size_t size) { return map(NULL, size, PROT_READ | PROT_WRITE); }
static void run_on(char *top, void (*function)(void *), void *argument)
{
    switch_stacks(&scheduler, new_stack(top, function, argument));
}

// Makes the whole of a stack known: a frame at its top, one far below, and a decoy in between.
CALL_SITE void far_below(size_t mark)
{
    char room[STACK - 3 * PAGE];
    opaque(room);
    hole_mark(mark);
    // So that what a decoy leads to is a chain.
    void **words = (void **)(room + sizeof room / 2);
    words[0] = words + 4;
    words[1] = (void *)far_below;
    without_table(mark, words);
}
CALL_SITE void deep_body(void *mark)
{
    far_below((size_t)mark);
    switch_stacks(&here, scheduler);
}
// Runs on the lower half.
static char *decoy;
static int by_table;
CALL_SITE void low_body(void *mark)
{
    hole_mark((size_t)mark);
    if (by_table) {
        wrong_table((size_t)mark);
    } else {
        without_table((size_t)mark, decoy);
        without_table((size_t)mark, decoy + 8);
    }
    switch_stacks(&here, scheduler);
}

// The upper half of the stack is protected, or unmapped.
CALL_SITE void upper_half_goes(int unmapped)
{
    char *stack = new_memory(STACK);
    run_on(stack + STACK, deep_body, (void *)6000);
    if (unmapped)
        CHECK(munmap(stack + STACK / 2, STACK / 2) == 0);
    else
        CHECK(mprotect(stack + STACK / 2, STACK / 2, PROT_NONE) == 0);
    decoy = stack + STACK / 2 + 10 * PAGE;
    run_on(stack + STACK / 2, low_body, (void *)6001);
    CHECK(munmap(stack, unmapped ? STACK / 2 : STACK) == 0);
}
// Two stacks side by side, of which the upper one goes.
CALL_SITE void neighbour_goes(void)
{
    char *stacks = new_memory(2 * STACK);
    decoy = stacks + STACK + PAGE;
    run_on(stacks + STACK, low_body, (void *)6002);
    CHECK(munmap(stacks + STACK, STACK) == 0);
    run_on(stacks + STACK, low_body, (void *)6003);
    CHECK(munmap(stacks, STACK) == 0);
}
// The stack goes as a whole, and half of it comes back where it was.
CALL_SITE void comes_back_smaller(void)
{
    char *stack = new_memory(STACK);
    run_on(stack + STACK, deep_body, (void *)6004);
    // Nobody else gets it in between.
    map(stack, STACK, PROT_NONE);
    map(stack, STACK / 2, PROT_READ | PROT_WRITE);
    decoy = stack + STACK / 2 + 2 * PAGE;
    run_on(stack + STACK / 2, low_body, (void *)6005);
    CHECK(munmap(stack, STACK) == 0);
}

// One calls `same_place` from half a stack further up than the other, from a frame that is larger by as much.
#define CALLS_SAME_PLACE(name, room)                                                                              \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n" name ": .cfi_startproc\n sub $" room " + 8, %rsp\n" \
            " .cfi_def_cfa_offset " room " + 16\n call same_place\n add $" room " + 8, %rsp\n"                     \
            " .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n .size " name ", . - " name "\n")
CALLS_SAME_PLACE("from_far_above", "20 * 4096");
CALLS_SAME_PLACE("from_above", "4 * 4096");
void from_far_above(size_t mark);
void from_above(size_t mark);
CALL_SITE void same_place(size_t mark)
{
    static void *begins;
    CHECK(mark == 6010 || begins == __builtin_dwarf_cfa());
    begins = __builtin_dwarf_cfa();
    MARK(mark);
    marks++;
}
CALL_SITE void far_body(void *mark)
{
    from_far_above((size_t)mark);
    switch_stacks(&here, scheduler);
}
CALL_SITE void near_body(void *mark)
{
    from_above((size_t)mark);
    switch_stacks(&here, scheduler);
}
CALL_SITE void same_place_again(int unmapped)
{
    char *stack = new_memory(STACK);
    run_on(stack + STACK, far_body, (void *)6010);
    if (unmapped)
        CHECK(munmap(stack + STACK / 2, STACK / 2) == 0);
    else
        CHECK(mprotect(stack + STACK / 2, STACK / 2, PROT_NONE) == 0);
    run_on(stack + STACK / 2, near_body, (void *)6011);
    CHECK(munmap(stack, unmapped ? STACK / 2 : STACK) == 0);
}

int main(int argc, char **argv)
{
    by_table = argc > 1 && strcmp(argv[1], "tables") == 0;
    if (argc > 1 && strcmp(argv[1], "remembered") == 0) {
        for (int i = 0; i < ROUNDS; i++)
            same_place_again(i % 2);
        printf("marks %d\n", marks);
        return 0;
    }
    for (int i = 0; i < ROUNDS; i++) {
        upper_half_goes(i % 2);
        neighbour_goes();
        comes_back_smaller();
    }
    printf("marks %d\n", marks);
    return 0;
}
