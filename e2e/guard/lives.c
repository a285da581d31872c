// Blocks that are used when they are no more, freed twice, or were never blocks; `realloc`; each function of C that gives a block; threads.
#include "case.h"
#include <alloca.h>

CALL_SITE void stores(volatile char *at, long bytes)
{
    for (long i = 0; i < bytes; i++)
        at[i] = 0x5A;
}
CALL_SITE void loads(const volatile char *at, long bytes)
{
    for (long i = 0; i < bytes; i++)
        sink += (unsigned long)at[i];
}
static void touches(const struct wrong *one, void *block)
{
    (strcmp(one->access, "write") == 0 ? stores : (void (*)(volatile char *, long))loads)((char *)block + one->offset, one->bytes);
}
// Blocks that come and go, of many sizes; in all MEGABYTES.
static void churn(long megabytes)
{
    uint32_t random = 17;
    void *kept[64] = {0};
    for (long bytes = megabytes << 20; bytes > 0;) {
        unsigned at = next_random(&random) % 64, size = 1 + next_random(&random) % 8000;
        free(kept[at]);
        kept[at] = malloc(size);
        CHECK(kept[at] != NULL);
        *(char *)kept[at] = 1;
        bytes -= size;
    }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
}

// Used after it was freed: at once, later, much later, and when the same size has been asked for again.
enum { LATER_MEGABYTES = 1, PRESSURE_MEGABYTES = 64 };
static void freed_and(const struct wrong *one, int is_bad, long megabytes, int again)
{
    struct between all = put_between((size_t)one->size);
    memset(all.block, 1, (size_t)one->size);
    if (!is_bad)
        touches(one, all.block);
    ends(all.block);
    churn(megabytes);
    void *same[16];
    for (int i = 0; i < again; i++)
        same[i] = gives((size_t)one->size);
    if (is_bad)
        touches(one, all.block);
    for (int i = 0; i < again; i++)
        ends(same[i]);
    ends(all.before);
    ends(all.after);
}
static void freed(const struct wrong *one, int is_bad) { freed_and(one, is_bad, 0, 0); }
static void freed_later(const struct wrong *one, int is_bad) { freed_and(one, is_bad, LATER_MEGABYTES, 0); }
static void freed_long_ago(const struct wrong *one, int is_bad) { freed_and(one, is_bad, PRESSURE_MEGABYTES, 0); }
static void freed_and_asked_for(const struct wrong *one, int is_bad) { freed_and(one, is_bad, 0, 16); }

// Freed twice.
CALL_SITE void ends_again(void *block)
{
    free(block);
    opaque(NULL);
}
static void twice(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    ends(all.block);
    if (is_bad)
        ends_again(all.block);
    ends(all.before);
    ends(all.after);
}
static void twice_with_others_between(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    ends(all.block);
    ends(all.before);
    ends(all.after);
    if (is_bad)
        ends_again(all.block);
}
static void twice_later(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    ends(all.block);
    // Other sizes, so that nobody has the memory meanwhile.
    for (int i = 0; i < 200; i++)
        free(opaque(malloc(2000)));
    if (is_bad)
        ends_again(all.block);
    ends(all.before);
    ends(all.after);
}
static void *ends_in_thread(void *block)
{
    ends(block);
    return NULL;
}
static void in_thread(void *(*function)(void *), void *word)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, word) == 0 && pthread_join(thread, NULL) == 0);
}
static void twice_by_two_threads(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    in_thread(ends_in_thread, all.block);
    if (is_bad)
        ends_again(all.block);
    ends(all.before);
    ends(all.after);
}
CALL_SITE void *resizes(void *block, size_t bytes) { return opaque(realloc(block, opaque_size(bytes))); }
static void resized_when_freed(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    void *block = all.block;
    if (!is_bad)
        block = resizes(block, 800);
    ends(block);
    if (is_bad)
        resizes(block, 800);
    ends(all.before);
    ends(all.after);
}

// Freed where no block begins.
static void middle(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    if (is_bad)
        ends_again((char *)all.block + one->offset);
    end_between(all);
}
static void resized_middle(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    if (is_bad)
        resizes((char *)all.block + one->offset, 800);
    end_between(all);
}
static char in_module[64] __attribute__((aligned(16)));
static void of_module(const struct wrong *one, int is_bad)
{
    void *block = is_bad ? opaque(in_module + 16) : gives(16);
    ends_again(block);
}
static void of_stack(const struct wrong *one, int is_bad)
{
    char local[64] __attribute__((aligned(16)));
    memset(opaque(local), 0, sizeof local);
    void *block = is_bad ? opaque(local + 16) : gives(16);
    ends_again(block);
}
static void of_alloca(const struct wrong *one, int is_bad)
{
    char *local = (char *)opaque(alloca(opaque_size(96)));
    memset(local, 0, 96);
    void *block = is_bad ? local + 32 : gives(16);
    ends_again(block);
}
static void of_nothing(const struct wrong *one, int is_bad)
{
    // So low that the kernel puts nothing there by itself.
    void *block = is_bad ? opaque((void *)(uintptr_t)0x123450) : gives(16);
    ends_again(block);
}

// `realloc`: the old tail, the old place, and the new end.
static void old_tail(const struct wrong *one, int is_bad)
{
    struct between all = put_between(400);
    all.block = resizes(all.block, (size_t)one->size);
    if (is_bad)
        touches(one, all.block);
    else
        stores((char *)all.block, one->size);
    end_between(all);
}
static void old_place(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    void *old = all.block;
    memset(old, 1, (size_t)one->size);
    // Far more than there is room for: it moves.
    all.block = resizes(all.block, 300000);
    touches(one, is_bad ? old : all.block);
    end_between(all);
}
static void new_end(const struct wrong *one, int is_bad)
{
    struct between all = put_between(20);
    all.block = resizes(all.block, (size_t)one->size);
    if (is_bad)
        touches(one, all.block);
    else
        stores((char *)all.block, one->size);
    end_between(all);
}
// As many as `malloc_usable_size` says may be used, and one more.
static void usable(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    long bytes = (long)malloc_usable_size(all.block);
    stores((char *)all.block, is_bad ? bytes + 1 : bytes);
    end_between(all);
}

// Every function that gives a block: one byte behind it, or in front of it.
#define GIVER(NAME, ...)                                                             \
    CALL_SITE void *gives_##NAME(size_t size)                                        \
    {                                                                                \
        void *block = NULL;                                                          \
        __VA_ARGS__;                                                                 \
        return opaque(block);                                                        \
    }                                                                                \
    static void NAME##_past(const struct wrong *one, int is_bad) { past_end_of(one, is_bad, gives_##NAME); } \
    static void NAME##_freed(const struct wrong *one, int is_bad) { after_end_of(one, is_bad, gives_##NAME); }
static void past_end_of(const struct wrong *one, int is_bad, void *(*giver)(size_t))
{
    void *before = giver(opaque_size((size_t)one->size)), *block = giver(opaque_size((size_t)one->size));
    if (is_bad)
        touches(one, block);
    else
        stores((char *)block, one->size);
    ends(block);
    ends(before);
}
static void after_end_of(const struct wrong *one, int is_bad, void *(*giver)(size_t))
{
    void *before = giver(opaque_size((size_t)one->size)), *block = giver(opaque_size((size_t)one->size));
    if (!is_bad)
        touches(one, block);
    ends(block);
    if (is_bad)
        touches(one, block);
    ends(before);
}
static char string[256];
static const char *string_of(size_t bytes)
{
    memset(string, 'x', bytes - 1);
    string[bytes - 1] = 0;
    return (const char *)opaque(string);
}
GIVER(malloc, block = malloc(size))
GIVER(calloc, block = calloc(1, size))
GIVER(calloc_array, block = calloc(size / 4, 4))
GIVER(realloc, block = realloc(NULL, size))
GIVER(reallocarray, block = reallocarray(NULL, size / 4, 4))
GIVER(posix_memalign, CHECK(posix_memalign(&block, 64, size) == 0))
GIVER(posix_memalign_page, CHECK(posix_memalign(&block, 4096, size) == 0))
GIVER(aligned_alloc, block = aligned_alloc(32, size))
GIVER(memalign, block = memalign(256, size))
GIVER(valloc, block = valloc(size))
GIVER(pvalloc, block = pvalloc(size))
GIVER(strdup, block = strdup(string_of(size)))
GIVER(strndup, block = strndup(string_of(size + 10), size - 1))
GIVER(asprintf, CHECK(asprintf((char **)&block, "%s", string_of(size)) == (int)size - 1))

// Of another thread's block, while it waits; of a block that another one has freed; and in four threads at once.
struct job {
    const struct wrong *one;
    void *block;
    int is_bad;
};
static void *touches_in_thread(void *word)
{
    struct job *job = (struct job *)word;
    if (job->is_bad)
        touches(job->one, job->block);
    else
        stores((char *)job->block, job->one->size);
    return NULL;
}
static void other_thread_touches(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    struct job job = {one, all.block, is_bad};
    in_thread(touches_in_thread, &job);
    end_between(all);
}
static void other_thread_has_freed(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    memset(all.block, 1, (size_t)one->size);
    if (!is_bad)
        touches(one, all.block);
    in_thread(ends_in_thread, all.block);
    if (is_bad)
        touches(one, all.block);
    ends(all.before);
    ends(all.after);
}
static void other_thread_uses_freed(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    struct job job = {one, all.block, 1};
    memset(all.block, 1, (size_t)one->size);
    if (is_bad)
        ends(all.block);
    in_thread(touches_in_thread, &job);
    if (!is_bad)
        ends(all.block);
    ends(all.before);
    ends(all.after);
}
static void *whole_in_thread(void *word)
{
    struct job *job = (struct job *)word;
    struct between all = put_between((size_t)job->one->size);
    job->block = all.block;
    touches_in_thread(job);
    end_between(all);
    return NULL;
}
static void in_four_threads(const struct wrong *one, int is_bad)
{
    pthread_t threads[4];
    struct job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){one, NULL, is_bad};
        CHECK(pthread_create(&threads[i], NULL, whole_in_thread, &jobs[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
// A block of a thread that is no more.
static void *gives_in_thread(void *word)
{
    (void)word;
    return gives(72);
}
static void of_a_thread_that_is_gone(const struct wrong *one, int is_bad)
{
    pthread_t thread;
    void *block;
    CHECK(pthread_create(&thread, NULL, gives_in_thread, NULL) == 0 && pthread_join(thread, &block) == 0);
    if (is_bad)
        touches(one, block);
    else
        stores((char *)block, one->size);
    ends(block);
}
#define USE(NAME, RUN, SIZE, AT, BYTES, MORE)                                                                            \
    {#NAME "_stored", RUN, "stores", AFTER_FREE, "write", "instruction", SIZE, AT, BYTES, 0, MORE},                      \
    {#NAME "_loaded", RUN, "loads", AFTER_FREE, "read", "instruction", SIZE, AT, BYTES, 0, 0},
#define USES(NAME, RUN, MORE) USE(NAME, RUN, 40, 20, 4, MORE) USE(NAME##_all, RUN, 24, 0, 24, MORE) \
    USE(NAME##_large, RUN, 5000, 4096, 8, MORE)
#define FREES(NAME, RUN, FUNCTION, KIND, BY, SIZE, AT) {#NAME, RUN, FUNCTION, KIND, "free", BY, SIZE, AT, 0, 0, 0},
#define PAST(NAME, RUN, SIZE, AT, BYTES, MORE)                                                                           \
    {#NAME "_stored", RUN, "stores", OVERFLOW, "write", "instruction", SIZE, AT, BYTES, 0, MORE},                        \
    {#NAME "_loaded", RUN, "loads", OVERFLOW, "read", "instruction", SIZE, AT, BYTES, 0, 0},
#define GIVEN(NAME, SIZE, ALIGNMENT)                                                                                     \
    {#NAME "_behind", NAME##_past, "stores", OVERFLOW, "write", "instruction", SIZE, SIZE, 1, ALIGNMENT, 0},              \
    {#NAME "_before", NAME##_past, "stores", UNDERFLOW, "write", "instruction", SIZE, -1, 1, ALIGNMENT, 0},               \
    {#NAME "_read_behind", NAME##_past, "loads", OVERFLOW, "read", "instruction", SIZE, SIZE, 1, ALIGNMENT, 0},           \
    {#NAME "_freed", NAME##_freed, "stores", AFTER_FREE, "write", "instruction", SIZE, 4, 4, ALIGNMENT, 0},

static const struct wrong CASES[] = {
    USES(freed, freed, 0) USES(freed_later, freed_later, 0)
    // How long a block is remembered is a matter of budgets.
    USE(freed_long_ago, freed_long_ago, 40, 20, 4, "full=?")
    // Whoever holds blocks back does not give this one again.
    USE(freed_and_asked_for, freed_and_asked_for, 40, 20, 4, 0)
    FREES(twice, twice, "ends_again", DOUBLE_FREE, "free", 40, 0)
    FREES(twice_large, twice, "ends_again", DOUBLE_FREE, "free", 5000, 0)
    FREES(twice_huge, twice, "ends_again", DOUBLE_FREE, "free", 1000000, 0)
    FREES(twice_empty, twice, "ends_again", DOUBLE_FREE, "free", 0, 0)
    FREES(twice_with_others_between, twice_with_others_between, "ends_again", DOUBLE_FREE, "free", 40, 0)
    FREES(twice_later, twice_later, "ends_again", DOUBLE_FREE, "free", 40, 0)
    FREES(twice_by_two_threads, twice_by_two_threads, "ends_again", DOUBLE_FREE, "free", 40, 0)
    FREES(resized_when_freed, resized_when_freed, "resizes", BAD_REALLOC, "realloc", 40, 0)
    FREES(middle, middle, "ends_again", BAD_FREE, "free", 400, 16)
    FREES(middle_odd, middle, "ends_again", BAD_FREE, "free", 400, 1)
    FREES(middle_last, middle, "ends_again", BAD_FREE, "free", 400, 399)
    FREES(middle_large, middle, "ends_again", BAD_FREE, "free", 100000, 50000)
    FREES(resized_middle, resized_middle, "resizes", BAD_REALLOC, "realloc", 400, 32)
    FREES(of_module, of_module, "ends_again", BAD_FREE, "free", -1, 0)
    FREES(of_stack, of_stack, "ends_again", BAD_FREE, "free", -1, 0)
    FREES(of_alloca, of_alloca, "ends_again", BAD_FREE, "free", -1, 0)
    FREES(of_nothing, of_nothing, "ends_again", BAD_FREE, "free", -1, 0)
    PAST(old_tail, old_tail, 100, 100, 4, 0) PAST(old_tail_far, old_tail, 100, 200, 4, "light=?") PAST(old_tail_end, old_tail, 100, 396, 4, "light=?")
    USE(old_place, old_place, 40, 20, 4, 0) USE(old_place_large, old_place, 5000, 4096, 8, 0)
    PAST(new_end, new_end, 500, 500, 1, 0) PAST(new_end_large, new_end, 50000, 50000, 4, 0)
    // Nothing but a guard says that there are no more than were asked for.
    {"usable", usable, "stores", OVERFLOW, "write", "instruction", 40, 40, 1, 0, 0},
    {"usable_odd", usable, "stores", OVERFLOW, "write", "instruction", 45, 45, 1, 0, 0},
    GIVEN(malloc, 200, 0) GIVEN(calloc, 201, 0) GIVEN(calloc_array, 204, 0) GIVEN(realloc, 202, 0) GIVEN(reallocarray, 208, 0)
    GIVEN(posix_memalign, 203, 64) GIVEN(posix_memalign_page, 205, 4096) GIVEN(aligned_alloc, 192, 32) GIVEN(memalign, 206, 256)
    GIVEN(valloc, 207, 4096) GIVEN(pvalloc, 4096, 4096) GIVEN(strdup, 35, 0) GIVEN(strndup, 36, 0) GIVEN(asprintf, 37, 0)
    PAST(other_thread_touches, other_thread_touches, 72, 72, 4, 0)
    {"other_thread_before", other_thread_touches, "stores", UNDERFLOW, "write", "instruction", 72, -4, 4, 0, 0},
    USE(other_thread_has_freed, other_thread_has_freed, 72, 20, 4, 0)
    USE(other_thread_uses_freed, other_thread_uses_freed, 72, 20, 4, 0)
    PAST(in_four_threads, in_four_threads, 72, 72, 4, 0)
    PAST(of_a_thread_that_is_gone, of_a_thread_that_is_gone, 72, 72, 4, 0)
};
MAIN(CASES)
