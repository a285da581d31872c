// Mistakes as people make them: sizes reckoned wrongly, ends of strings that were not counted, loops that go on for one too many.
#include "case.h"

#define WRONG(NAME) CALL_SITE void NAME
#define CASE(NAME) static void NAME##_run(const struct wrong *one, int is_bad)

// The end of a string was not counted.
WRONG(copies_string)(char *to, const char *from)
{
    volatile char *at = to;
    for (; *from != 0; from++)
        *at++ = *from;
    *at = 0;
}
CASE(no_room_for_the_end)
{
    const char *name = "sixteen letters.";
    struct between all = put_between(strlen(name) + (is_bad ? 0 : 1));
    copies_string((char *)all.block, name);
    end_between(all);
}
// Two hexadecimal digits for each byte, and the end.
WRONG(writes_hex)(char *to, const unsigned char *from, int bytes)
{
    volatile char *at = to;
    for (int i = 0; i < bytes; i++) {
        *at++ = "0123456789abcdef"[from[i] >> 4];
        *at++ = "0123456789abcdef"[from[i] & 15];
    }
    *at = 0;
}
CASE(hex_without_end)
{
    struct between all = put_between(is_bad ? 64 : 65);
    unsigned char bytes[32];
    memset(bytes, 0xE5, sizeof bytes);
    writes_hex((char *)all.block, bytes, 32);
    end_between(all);
}
// The size of the pointer instead of that of what it points to.
struct order {
    long number, amount;
    char customer[40];
};
WRONG(fills_order)(volatile struct order *order)
{
    order->number = 1;
    order->amount = 0x5A5A5A5A5A5A5A5A;
}
CASE(size_of_pointer)
{
    struct order *order = NULL;
    struct between all = put_between(is_bad ? sizeof order : sizeof *order);
    fills_order((struct order *)all.block);
    end_between(all);
}
// Elements were counted, not bytes.
WRONG(fills_longs)(volatile long *array, int count)
{
    for (int i = 0; i < count; i++)
        array[i] = 0x5A5A5A5A5A5A5A5A;
}
CASE(elements_for_bytes)
{
    struct between all = put_between(is_bad ? 60 : 60 * sizeof(long));
    fills_longs((long *)all.block, 60);
    end_between(all);
}
// From 1 to N, where it is from 0 to N - 1.
WRONG(counts_from_one)(volatile int *array, int count)
{
    for (int i = 1; i <= count; i++)
        array[i] = i;
}
CASE(from_one_on)
{
    struct between all = put_between(is_bad ? 32 * sizeof(int) : 33 * sizeof(int));
    counts_from_one((int *)all.block, 32);
    end_between(all);
}
// A search that goes down past the first element.
WRONG(searches_down)(const volatile int *array, int from, int wanted)
{
    while (from >= -1 && array[from] != wanted)
        from--;
    sink += (unsigned long)from;
}
CASE(search_past_first)
{
    struct between all = put_between(32 * sizeof(int));
    for (int i = 0; i < 32; i++)
        ((int *)all.block)[i] = i + 1;
    searches_down((int *)all.block, 31, is_bad ? 1000001 : 1);
    end_between(all);
}
// A number of 16 bits that went round.
WRONG(fills_bytes)(volatile char *to, long bytes)
{
    for (long i = 0; i < bytes; i++)
        to[i] = 0x5A;
}
CASE(size_went_round)
{
    long bytes = (long)opaque_size(65540);
    unsigned short narrow = (unsigned short)bytes;
    struct between all = put_between(is_bad ? narrow + 60u : (size_t)bytes);
    fills_bytes((char *)all.block, is_bad ? 80 : bytes);
    end_between(all);
}
// A negative index.
WRONG(stores_at)(volatile short *table, int index) { table[index] = 0x5A5A; }
CASE(negative_index)
{
    struct between all = put_between(256 * sizeof(short));
    stores_at((short *)all.block, is_bad ? (signed char)0xFD : 0xFD);
    end_between(all);
}
// Rows and columns the wrong way round.
WRONG(fills_matrix)(volatile double *matrix, int rows, int columns, int stride)
{
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            matrix[row * stride + column] = 1.1;
}
CASE(rows_and_columns)
{
    // 5 rows of 8, taken for 8 rows of 5 that lie 8 apart.
    struct between all = put_between(40 * sizeof(double));
    fills_matrix((double *)all.block, is_bad ? 6 : 5, is_bad ? 5 : 8, 8);
    end_between(all);
}
// A ring of N places in which the index goes up to N.
WRONG(goes_round)(volatile long *ring, unsigned places, unsigned steps)
{
    unsigned at = 0;
    for (unsigned i = 0; i < steps; i++) {
        ring[at] = 0x5A5A5A5A5A5A5A5A;
        at = at == places ? 0 : at + 1;
    }
}
CASE(ring_of_one_too_many)
{
    struct between all = put_between(16 * sizeof(long));
    goes_round((long *)all.block, is_bad ? 16 : 15, 100);
    end_between(all);
}
// A structure that ends with an array, for which there is no room.
struct message {
    unsigned length;
    char body[];
};
WRONG(fills_message)(volatile struct message *message, unsigned length)
{
    message->length = length;
    for (unsigned i = 0; i < length; i++)
        message->body[i] = 'Z';
}
CASE(message_without_body)
{
    struct between all = put_between(sizeof(struct message) + (is_bad ? 0 : 30));
    fills_message((struct message *)all.block, 30);
    end_between(all);
}
// One letter becomes two bytes.
WRONG(encodes)(char *to, const unsigned char *from)
{
    volatile char *at = to;
    for (; *from != 0; from++) {
        if (*from >= 0x80) {
            *at++ = (char)(0xC0 | *from >> 6);
            *at++ = (char)(0x80 | (*from & 0x3F));
        } else {
            *at++ = (char)*from;
        }
    }
    *at = 0;
}
CASE(letters_of_two_bytes)
{
    const unsigned char *text = (const unsigned char *)"Stra\xdf" "e, \xc4rger, \xd6l, \xdc" "bung";
    struct between all = put_between(strlen((const char *)text) + 1 + (is_bad ? 0 : 4));
    encodes((char *)all.block, text);
    end_between(all);
}
// Numbers are read in pairs, and there is an odd one.
WRONG(adds_pairs)(const volatile int *array, int count)
{
    for (int i = 0; i < count; i += 2)
        sink += (unsigned long)(array[i] + array[i + 1]);
}
CASE(odd_number_of_pairs)
{
    struct between all = put_between((is_bad ? 31 : 32) * sizeof(int));
    memset(all.block, 1, 31 * sizeof(int));
    if (!is_bad)
        ((int *)all.block)[31] = 1;
    adds_pairs((int *)all.block, 31);
    end_between(all);
}
// A list whose elements are freed while one walks along it.
struct element {
    struct element *next;
    long value;
};
WRONG(goes_on)(volatile struct element *element) { sink += (unsigned long)element->value; }
CASE(freed_while_walking)
{
    struct element *second = (struct element *)gives(sizeof *second), *first = (struct element *)gives(sizeof *first);
    *second = (struct element){NULL, 2};
    *first = (struct element){second, 1};
    if (!is_bad)
        goes_on(first);
    ends(first);
    if (is_bad)
        goes_on(first);
    ends(second);
}
// Kept beyond its time in something that lives longer.
static int *volatile cached;
WRONG(uses_cached)(void) { *(volatile int *)(cached + 5) = 17; }
CASE(cached_for_too_long)
{
    struct between all = put_between(64);
    cached = (int *)all.block;
    if (!is_bad)
        uses_cached();
    ends(all.block);
    if (is_bad)
        uses_cached();
    ends(all.before);
    ends(all.after);
}
// A buffer grows, and the old pointer into it is kept.
WRONG(appends)(volatile char *at) { *at = 'Z'; }
CASE(pointer_into_what_grew)
{
    struct between all = put_between(64);
    char *cursor = (char *)all.block + 40;
    memset(all.block, 'x', 64);
    void *grown = realloc(all.block, 200000);
    CHECK(grown != NULL);
    appends(is_bad ? cursor : (char *)grown + 40);
    all.block = grown;
    end_between(all);
}

#define ROW(NAME, FUNCTION, KIND, ACCESS, SIZE, AT, BYTES) {#NAME, NAME##_run, FUNCTION, KIND, ACCESS, "instruction", SIZE, AT, BYTES, 0, 0},
static const struct wrong CASES[] = {
    ROW(no_room_for_the_end, "copies_string", OVERFLOW, "write", 16, 16, 1)
    ROW(hex_without_end, "writes_hex", OVERFLOW, "write", 64, 64, 1)
    ROW(size_of_pointer, "fills_order", OVERFLOW, "write", 8, 8, 8)
    ROW(elements_for_bytes, "fills_longs", OVERFLOW, "write", 60, 60, 420)
    ROW(from_one_on, "counts_from_one", OVERFLOW, "write", 128, 128, 4)
    ROW(search_past_first, "searches_down", UNDERFLOW, "read", 128, -4, 4)
    ROW(size_went_round, "fills_bytes", OVERFLOW, "write", 64, 64, 16)
    ROW(negative_index, "stores_at", UNDERFLOW, "write", 512, -6, 2)
    ROW(rows_and_columns, "fills_matrix", OVERFLOW, "write", 320, 320, 40)
    ROW(ring_of_one_too_many, "goes_round", OVERFLOW, "write", 128, 128, 8)
    ROW(message_without_body, "fills_message", OVERFLOW, "write", 4, 4, 30)
    ROW(letters_of_two_bytes, "encodes", OVERFLOW, "write", 25, 25, 4)
    ROW(odd_number_of_pairs, "adds_pairs", OVERFLOW, "read", 124, 124, 4)
    ROW(freed_while_walking, "goes_on", AFTER_FREE, "read", 16, 8, 8)
    ROW(cached_for_too_long, "uses_cached", AFTER_FREE, "write", 64, 20, 4)
    ROW(pointer_into_what_grew, "appends", AFTER_FREE, "write", 64, 40, 1)
};
MAIN(CASES)
