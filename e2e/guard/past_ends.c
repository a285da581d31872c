// Bytes before the first and behind the last of a block, read and written: blocks and distances of all sizes, every type of element, loops.
#include "case.h"
#include <wchar.h>

CALL_SITE void stores_bytes(volatile unsigned char *at, long bytes)
{
    for (long i = 0; i < bytes; i++)
        at[i] = 0x5A;
}
CALL_SITE void loads_bytes(const volatile unsigned char *at, long bytes)
{
    for (long i = 0; i < bytes; i++)
        sink += at[i];
}

// As many bytes, but inside: the last ones, or the first ones.
static long first_inside(const struct wrong *one, long bytes) { return one->offset < 0 ? 0 : one->size - bytes; }
static long as_many_inside(const struct wrong *one) { return one->bytes < one->size ? one->bytes : one->size; }

static void bytes_of(const struct wrong *one, int is_bad)
{
    struct between all = put_between((size_t)one->size);
    long bytes = is_bad ? one->bytes : as_many_inside(one);
    long first = is_bad ? one->offset : first_inside(one, bytes);
    unsigned char *at = (unsigned char *)all.block + first;
    if (strcmp(one->access, "write") == 0) {
        stores_bytes(at, bytes);
    } else {
        memset(all.block, 1, (size_t)one->size);
        loads_bytes(at, bytes);
    }
    end_between(all);
}

#define BEHIND(S, D)                                                                                        \
    {"store_" #D "_behind_" #S, bytes_of, "stores_bytes", OVERFLOW, "write", "instruction", S, S, D, 0, 0}, \
    {"load_" #D "_behind_" #S, bytes_of, "loads_bytes", OVERFLOW, "read", "instruction", S, S, D, 0, 0},
#define BEFORE(S, D)                                                                                           \
    {"store_" #D "_before_" #S, bytes_of, "stores_bytes", UNDERFLOW, "write", "instruction", S, -D, D, 0, 0},  \
    {"load_" #D "_before_" #S, bytes_of, "loads_bytes", UNDERFLOW, "read", "instruction", S, -D, D, 0, 0},
#define DISTANCES(S) BEHIND(S, 1) BEHIND(S, 4) BEHIND(S, 8) BEHIND(S, 16) BEHIND(S, 100) \
    BEFORE(S, 1) BEFORE(S, 4) BEFORE(S, 8) BEFORE(S, 16) BEFORE(S, 100)

// One element of a type: right behind, right before, and some way behind; and a loop that goes on for one too many, or down to one.
enum { ELEMENTS = 10 };
struct record {
    int number;
    double weight;
    char name[9];
};
typedef long long pair __attribute__((vector_size(16)));

#define TYPE(T, NAME, VALUE)                                                                                        \
    CALL_SITE void NAME##_store(volatile T *array, long index) { array[index] = VALUE; }                            \
    CALL_SITE void NAME##_load(const volatile T *array, long index)                                                 \
    {                                                                                                               \
        T one = array[index];                                                                                       \
        sink += *(unsigned char *)&one;                                                                             \
    }                                                                                                               \
    CALL_SITE void NAME##_loop(volatile T *array, long from, long to)                                               \
    {                                                                                                               \
        for (long i = from; i < to; i++)                                                                            \
            array[i] = VALUE;                                                                                       \
    }                                                                                                               \
    static void NAME##_element(const struct wrong *one, int is_bad)                                                 \
    {                                                                                                               \
        struct between all = put_between(ELEMENTS * sizeof(T));                                                     \
        long last = is_bad ? one->offset / (long)sizeof(T) : one->offset < 0 ? 0 : ELEMENTS - 1;                    \
        NAME##_loop((T *)all.block, 0, ELEMENTS);                                                                   \
        if (strcmp(one->access, "write") == 0)                                                                      \
            NAME##_store((T *)all.block, last);                                                                     \
        else                                                                                                        \
            NAME##_load((T *)all.block, last);                                                                      \
        end_between(all);                                                                                           \
    }                                                                                                               \
    static void NAME##_elements(const struct wrong *one, int is_bad)                                                \
    {                                                                                                               \
        struct between all = put_between(ELEMENTS * sizeof(T));                                                     \
        long more = is_bad ? one->bytes / (long)sizeof(T) : 0;                                                      \
        if (one->offset < 0)                                                                                        \
            NAME##_loop((T *)all.block, -more, ELEMENTS);                                                           \
        else                                                                                                        \
            NAME##_loop((T *)all.block, 0, ELEMENTS + more);                                                        \
        end_between(all);                                                                                           \
    }

TYPE(char, char, 0x5A)
TYPE(short, short, 0x5A5A)
TYPE(int, int, 0x5A5A5A5A)
TYPE(long, long, 0x5A5A5A5A5A5A5A5AL)
TYPE(float, float, 1.1f)
TYPE(double, double, 1.1)
TYPE(long double, long_double, 1.1L)
TYPE(wchar_t, wchar, L'\x5A5A')
TYPE(void *, pointer, (void *)0x5A5A5A5A5A5AL)
TYPE(_Bool, boolean, 1)
TYPE(struct record, record, ((struct record){0x5A5A, 1.1, "a record"}))
TYPE(pair, vector, ((pair){0x5A5A5A5A5A5A5A5A, 0x5A5A5A5A5A5A5A5A}))

#define ALL_OF(T) ELEMENTS * (long)sizeof(T)
#define ROW(NAME, WAY, RUN, FUNCTION, KIND, ACCESS, T, AT, BYTES) \
    {#NAME WAY, NAME##RUN, #NAME FUNCTION, KIND, ACCESS, "instruction", ALL_OF(T), AT, BYTES, 0, 0},
#define ROWS(T, NAME)                                                                                             \
    ROW(NAME, "_stored_behind", _element, "_store", OVERFLOW, "write", T, ALL_OF(T), (long)sizeof(T))             \
    ROW(NAME, "_stored_before", _element, "_store", UNDERFLOW, "write", T, -(long)sizeof(T), (long)sizeof(T))     \
    ROW(NAME, "_loaded_behind", _element, "_load", OVERFLOW, "read", T, ALL_OF(T), (long)sizeof(T))               \
    ROW(NAME, "_loaded_before", _element, "_load", UNDERFLOW, "read", T, -(long)sizeof(T), (long)sizeof(T))       \
    ROW(NAME, "_stored_far_behind", _element, "_store", OVERFLOW, "write", T, 9 * ALL_OF(T), (long)sizeof(T))    \
    ROW(NAME, "_loop_one_too_far", _elements, "_loop", OVERFLOW, "write", T, ALL_OF(T), (long)sizeof(T))          \
    ROW(NAME, "_loop_from_one_before", _elements, "_loop", UNDERFLOW, "write", T, -(long)sizeof(T), (long)sizeof(T)) \
    ROW(NAME, "_loop_twice_as_far", _elements, "_loop", OVERFLOW, "write", T, ALL_OF(T), ALL_OF(T))

static const struct wrong CASES[] = {
    DISTANCES(0) DISTANCES(1) DISTANCES(7) DISTANCES(8) DISTANCES(13) DISTANCES(16) DISTANCES(100) DISTANCES(400)
    DISTANCES(4096) DISTANCES(100000)
    ROWS(char, char) ROWS(short, short) ROWS(int, int) ROWS(long, long) ROWS(float, float) ROWS(double, double)
    ROWS(long double, long_double) ROWS(wchar_t, wchar) ROWS(void *, pointer) ROWS(_Bool, boolean) ROWS(struct record, record)
    ROWS(pair, vector)
};
MAIN(CASES)
