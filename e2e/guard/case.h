// Shared by the programs of this directory that do one thing wrong with a block: a table of cases, and what `main` does with it.
//
//     PROGRAM list               a line for each case, with what is wrong in it: the only place where that is said
//     PROGRAM CASE bad|good      does it, or does the same rightly; says "CASE bad" or "CASE good" at its end
//     PROGRAM all good           all of them rightly, one after the other
//
// In each case `gives` has the block, `ends` frees it, and what is wrong is done in the function that the table names. It ends with
// status 0 unless something stops it, and says nothing else.
#ifndef CASE_H
#define CASE_H
#include "../../victims/victim.h"
#include <stdarg.h>

#define OVERFLOW "heap-buffer-overflow"
#define UNDERFLOW "heap-buffer-underflow"
#define AFTER_FREE "heap-use-after-free"
#define DOUBLE_FREE "double-free"
#define BAD_FREE "bad-free"
#define BAD_REALLOC "bad-realloc"
#define MISMATCH "alloc-dealloc-mismatch"
#define OTHER_TYPE "new-delete-type-mismatch"

struct wrong {
    const char *name;
    void (*run)(const struct wrong *, int is_bad);
    // The function that does what is wrong.
    const char *function;
    const char *kind;
    // What is done to memory: "write", "read", or "free" if the call that ends the block is what is wrong.
    const char *access;
    // How: "instruction", or the function of the C library.
    const char *by;
    // Bytes of the block, the first that is touched wrongly, from its begin on, and how many are.
    long size, offset, bytes;
    // What the block was asked to be aligned to, if anything.
    long alignment;
    // What does not follow from that: "LEVEL=WHERE" as in `list`.
    const char *more;
};

CALL_SITE void *gives(size_t bytes) { return opaque(malloc(opaque_size(bytes))); }
CALL_SITE void ends(void *block)
{
    free(block);
    opaque(NULL);
}

// A block with live ones on both sides, which are freed after it.
struct between {
    void *before, *block, *after;
};
static __attribute__((unused)) struct between put_between(size_t bytes)
{
    struct between all;
    // Never freed: so that the block is not the first of its size, in front of which some allocators have nothing at all.
    for (int i = 0; i < 4; i++)
        gives(bytes);
    all.before = gives(24);
    all.block = gives(bytes);
    all.after = gives(40);
    return all;
}
static __attribute__((unused)) void end_between(struct between all)
{
    ends(all.block);
    ends(all.before);
    ends(all.after);
}

// So that nothing that was read is left out; never shown, since nobody knows what lies past an end.
static volatile unsigned long sink;

// Nothing here may allocate, so that a block of the C library's does not come between.
static void say(const char *name, const char *word)
{
    char line[128];
    int length = 0;
    const char *parts[] = {name, " ", word, "\n"};
    for (int i = 0; i < 4; i++)
        for (const char *at = parts[i]; *at != 0; at++)
            line[length++] = *at;
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
}

static int main_of(const struct wrong *cases, int number, int count, char **words)
{
    if (count == 2 && strcmp(words[1], "list") == 0) {
        for (const struct wrong *one = cases; one < cases + number; one++) {
            printf("%s function=%s kind=%s access=%s by=%s size=%ld offset=%ld bytes=%ld alignment=%ld %s\n", one->name, one->function,
                one->kind, one->access, one->by, one->size, one->offset, one->bytes, one->alignment != 0 ? one->alignment : 16,
                one->more != NULL ? one->more : "");
        }
        return 0;
    }
    CHECK(count == 3);
    int is_bad = strcmp(words[2], "bad") == 0, done = 0, all = strcmp(words[1], "all") == 0;
    CHECK(is_bad ? !all : strcmp(words[2], "good") == 0);
    for (const struct wrong *one = cases; one < cases + number; one++) {
        if (all || strcmp(words[1], one->name) == 0) {
            one->run(one, is_bad);
            say(one->name, words[2]);
            done++;
        }
    }
    CHECK(done != 0);
    return 0;
}

#define MAIN(cases)                                                                   \
    int main(int count, char **words)                                                 \
    {                                                                                 \
        return main_of(cases, (int)(sizeof cases / sizeof *cases), count, words);     \
    }
#endif
