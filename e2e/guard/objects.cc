// Objects, arrays, strings and containers of C++ whose memory is used past an end or after its end.
#include "case.h"
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

struct Shape {
    virtual ~Shape() {}
    virtual long area() const { return side * side; }
    long side = 7;
    long more = 1;
};
struct Named : Shape {
    char name[24] = "a shape";
    long area() const override { return side + name[0]; }
};
struct alignas(64) Wide {
    char bytes[128];
};
struct Plain {
    int numbers[5];
};
struct Node {
    Node *next;
    long value;
};
struct Counted {
    int count = 1;
    void keep() { count++; }
    void let_go()
    {
        // Read, and then written: not by one instruction.
        volatile int *at = &count;
        int now = *at;
        *at = now - 1;
        if (now == 1)
            delete this;
    }
};

#define SIZE_OF(T) (long)sizeof(T)
#define WRONG(NAME) EXTERN_C __attribute__((noipa)) void NAME
template <typename T> static T *hidden(T *pointer) { return (T *)opaque((void *)pointer); }

WRONG(stores_member)(Shape *shape) { *(volatile long *)&shape->more = 0x5A5A5A5A; }
WRONG(loads_member)(Shape *shape) { sink += (unsigned long)*(volatile long *)&shape->more; }
WRONG(calls_virtual)(Shape *shape) { sink += (unsigned long)shape->area(); opaque(NULL); }
WRONG(stores_name)(Named *named, int at) { *(volatile char *)(named->name + at) = 'Z'; }
WRONG(stores_byte)(char *bytes, long at) { ((volatile char *)bytes)[at] = 'Z'; }
WRONG(loads_byte)(const char *bytes, long at) { sink += (unsigned long)((const volatile char *)bytes)[at]; }
WRONG(stores_int)(int *array, long at) { ((volatile int *)array)[at] = 0x5A5A5A5A; }
WRONG(loads_int)(const int *array, long at) { sink += (unsigned long)((const volatile int *)array)[at]; }
WRONG(stores_vtable)(Shape *shapes, long at) { *(void *volatile *)(shapes + at) = (void *)0x5A5A5A5A5A5A; }
WRONG(follows)(Node *node)
{
    for (; node != NULL; node = *(Node *volatile *)&node->next)
        sink += (unsigned long)*(volatile long *)&node->value;
}
WRONG(deletes_shape)(Shape *shape)
{
    delete shape;
    opaque(NULL);
}
WRONG(frees_int)(int *number)
{
    delete number;
    opaque(NULL);
}
WRONG(frees_ints)(int *numbers)
{
    delete[] numbers;
    opaque(NULL);
}
WRONG(frees_c)(void *block)
{
    free(block);
    opaque(NULL);
}
WRONG(frees_plain)(Plain *plain)
{
    delete plain;
    opaque(NULL);
}
WRONG(lets_go)(Counted *counted)
{
    counted->let_go();
    opaque(NULL);
}

#define CASE(NAME) static void NAME(const struct wrong *one, int is_bad)

CASE(object_freed_store)
{
    Shape *shape = hidden(new Shape());
    if (!is_bad)
        stores_member(shape);
    delete shape;
    if (is_bad)
        stores_member(shape);
}
CASE(object_freed_load)
{
    Shape *shape = hidden(new Shape());
    if (!is_bad)
        loads_member(shape);
    delete shape;
    if (is_bad)
        loads_member(shape);
}
CASE(object_past_end)
{
    // A base where a derived one was meant.
    Shape *shape = is_bad ? hidden(new Shape()) : hidden(new Named());
    stores_name((Named *)shape, 3);
    delete shape;
}
CASE(object_array_one_too_far)
{
    Shape *shapes = hidden(new Shape[is_bad ? 3 : 4]);
    stores_vtable(shapes, 3);
    // Not by its destructors, which would call what was written.
    ::operator delete[]((size_t *)(void *)shapes - 1);
}
CASE(virtual_call_of_freed)
{
    Shape *shape = hidden(new Named());
    if (!is_bad)
        calls_virtual(shape);
    delete shape;
    if (is_bad)
        calls_virtual(shape);
}
CASE(member_string_of_freed)
{
    struct Holder {
        std::string text = std::string(100, 'x');
    };
    Holder *holder = new Holder();
    const char *inside = (const char *)opaque((void *)holder->text.data());
    if (!is_bad)
        loads_byte(inside, 50);
    delete holder;
    if (is_bad)
        loads_byte(inside, 50);
}
CASE(array_store)
{
    int *array = hidden(new int[25]);
    stores_int(array, is_bad ? one->offset / 4 : 24);
    delete[] array;
}
CASE(array_load)
{
    int *array = hidden(new int[25]());
    loads_int(array, is_bad ? one->offset / 4 : 24);
    delete[] array;
}
CASE(chars_store)
{
    char *chars = hidden(new char[13]);
    stores_byte(chars, is_bad ? one->offset : 12);
    delete[] chars;
}
CASE(nothrow_store)
{
    char *chars = hidden(new (std::nothrow) char[29]);
    stores_byte(chars, is_bad ? one->offset : 28);
    delete[] chars;
}
CASE(single_store)
{
    int *number = hidden(new int(1));
    stores_int(number, is_bad ? one->offset / 4 : 0);
    delete number;
}
CASE(wide_store)
{
    Wide *wide = hidden(new Wide());
    stores_byte(wide->bytes, is_bad ? one->offset : 127);
    delete wide;
}
CASE(wide_array_store)
{
    Wide *wide = hidden(new Wide[3]);
    stores_byte(wide->bytes, is_bad ? one->offset : 383);
    delete[] wide;
}
CASE(wide_freed_load)
{
    Wide *wide = hidden(new Wide());
    if (!is_bad)
        loads_byte(wide->bytes, one->offset);
    delete wide;
    if (is_bad)
        loads_byte(wide->bytes, one->offset);
}
CASE(vector_store)
{
    std::vector<int> numbers(20);
    stores_int(hidden(numbers.data()), is_bad ? one->offset / 4 : 19);
}
CASE(vector_load)
{
    std::vector<int> numbers(20);
    loads_int(hidden(numbers.data()), is_bad ? one->offset / 4 : 19);
}
CASE(vector_grown)
{
    std::vector<int> numbers(20);
    int *first = hidden(numbers.data());
    if (is_bad)
        numbers.resize(2000);
    stores_int(first, 3);
}
CASE(vector_gone)
{
    int *first;
    {
        std::vector<int> numbers(20);
        first = hidden(numbers.data());
        if (!is_bad)
            loads_int(first, 3);
    }
    if (is_bad)
        loads_int(first, 3);
}
CASE(string_store)
{
    std::string text(60, 'x');
    // Its capacity is 60, with the end.
    stores_byte((char *)opaque(text.data()), is_bad ? one->offset : 59);
}
CASE(string_view_of_gone)
{
    std::string *text = new std::string(60, 'x');
    std::string_view view(*text);
    if (!is_bad)
        loads_byte(view.data(), 10);
    delete text;
    if (is_bad)
        loads_byte((const char *)opaque((void *)view.data()), 10);
}
CASE(unique_array)
{
    std::unique_ptr<int[]> numbers(new int[25]);
    stores_int(hidden(numbers.get()), is_bad ? one->offset / 4 : 24);
}
CASE(shared_gone)
{
    auto shared = std::make_shared<Plain>();
    int *inside = hidden(shared->numbers);
    if (!is_bad)
        stores_int(inside, 2);
    shared.reset();
    if (is_bad)
        stores_int(inside, 2);
}
CASE(list_walked_when_freed)
{
    Node *second = hidden(new Node{NULL, 2}), *first = hidden(new Node{second, 1});
    if (!is_bad)
        follows(first);
    delete second;
    if (is_bad)
        follows(first);
    delete first;
}
CASE(map_element_gone)
{
    std::map<int, Plain> map;
    map[1] = Plain();
    int *inside = hidden(map[1].numbers);
    if (!is_bad)
        stores_int(inside, 4);
    map.erase(1);
    if (is_bad)
        stores_int(inside, 4);
}
CASE(deleted_twice)
{
    int *number = hidden(new int(1));
    delete number;
    if (is_bad)
        frees_int(number);
}
CASE(array_deleted_twice)
{
    int *numbers = hidden(new int[25]);
    delete[] numbers;
    if (is_bad)
        frees_ints(numbers);
}
CASE(counted_once_too_often)
{
    Counted *counted = hidden(new Counted());
    counted->keep();
    counted->let_go();
    counted->let_go();
    if (is_bad)
        lets_go(counted);
}
CASE(unique_twice)
{
    int *number = hidden(new int(1));
    std::unique_ptr<int> first(number);
    {
        std::unique_ptr<int> second(is_bad ? number : new int(2));
    }
    if (!is_bad)
        return;
    frees_int(first.release());
}
CASE(new_and_free)
{
    int *number = hidden(new int(1));
    if (is_bad)
        frees_c(number);
    else
        delete number;
}
CASE(array_and_delete)
{
    int *numbers = hidden(new int[25]);
    if (is_bad)
        frees_int(numbers);
    else
        delete[] numbers;
}
CASE(malloc_and_delete)
{
    int *number = (int *)opaque(malloc(sizeof *number));
    if (is_bad)
        frees_int(number);
    else
        free(number);
}
CASE(other_type)
{
    // With the size of one class where another one was made.
    void *object = hidden(new Node{NULL, 1});
    if (is_bad)
        frees_plain((Plain *)object);
    else
        delete (Node *)object;
}
CASE(middle_of_array)
{
    int *numbers = hidden(new int[25]);
    if (is_bad)
        frees_ints(numbers + 4);
    delete[] numbers;
}

#define ROW(NAME, FUNCTION, KIND, ACCESS, BY, SIZE, AT, BYTES, ALIGNMENT) {#NAME, NAME, FUNCTION, KIND, ACCESS, BY, SIZE, AT, BYTES, ALIGNMENT, 0},
#define NAMED(WORD, NAME, FUNCTION, KIND, ACCESS, SIZE, AT, BYTES, ALIGNMENT) {#NAME WORD, NAME, FUNCTION, KIND, ACCESS, "instruction", SIZE, AT, BYTES, ALIGNMENT, 0},
// Behind, in front of, and 100 bytes behind a block.
#define AROUND(NAME, FUNCTION, ACCESS, SIZE, BYTES, ALIGNMENT)                        \
    NAMED("_behind", NAME, FUNCTION, OVERFLOW, ACCESS, SIZE, SIZE, BYTES, ALIGNMENT)   \
    NAMED("_before", NAME, FUNCTION, UNDERFLOW, ACCESS, SIZE, -BYTES, BYTES, ALIGNMENT) \
    NAMED("_far", NAME, FUNCTION, OVERFLOW, ACCESS, SIZE, SIZE + 100, BYTES, ALIGNMENT)
#define FREED(NAME, FUNCTION, ACCESS, SIZE, AT, BYTES, ALIGNMENT) ROW(NAME, FUNCTION, AFTER_FREE, ACCESS, "instruction", SIZE, AT, BYTES, ALIGNMENT)
#define FREES(NAME, FUNCTION, KIND, SIZE, AT) ROW(NAME, FUNCTION, KIND, "free", "free", SIZE, AT, 0, 0)

static const struct wrong CASES[] = {
    FREED(object_freed_store, "stores_member", "write", SIZE_OF(Shape), 16, 8, 0)
    FREED(object_freed_load, "loads_member", "read", SIZE_OF(Shape), 16, 8, 0)
    ROW(object_past_end, "stores_name", OVERFLOW, "write", "instruction", SIZE_OF(Shape), 27, 1, 0)
    ROW(object_array_one_too_far, "stores_vtable", OVERFLOW, "write", "instruction", 8 + 3 * SIZE_OF(Shape), 8 + 3 * SIZE_OF(Shape), 8, 0)
    FREED(virtual_call_of_freed, "calls_virtual", "read", SIZE_OF(Named), 0, 8, 0)
    FREED(member_string_of_freed, "loads_byte", "read", 101, 50, 1, 0)
    AROUND(array_store, "stores_int", "write", 100, 4, 0)
    AROUND(array_load, "loads_int", "read", 100, 4, 0)
    AROUND(chars_store, "stores_byte", "write", 13, 1, 0)
    AROUND(nothrow_store, "stores_byte", "write", 29, 1, 0)
    AROUND(single_store, "stores_int", "write", 4, 4, 0)
    AROUND(wide_store, "stores_byte", "write", 128, 1, 64)
    AROUND(wide_array_store, "stores_byte", "write", 384, 1, 64)
    FREED(wide_freed_load, "loads_byte", "read", 128, 100, 1, 64)
    AROUND(vector_store, "stores_int", "write", 80, 4, 0)
    AROUND(vector_load, "loads_int", "read", 80, 4, 0)
    FREED(vector_grown, "stores_int", "write", 80, 12, 4, 0)
    FREED(vector_gone, "loads_int", "read", 80, 12, 4, 0)
    AROUND(string_store, "stores_byte", "write", 61, 1, 0)
    FREED(string_view_of_gone, "loads_byte", "read", 61, 10, 1, 0)
    AROUND(unique_array, "stores_int", "write", 100, 4, 0)
    // A block holds the counts as well.
    FREED(shared_gone, "stores_int", "write", -1, 24, 4, 0)
    FREED(list_walked_when_freed, "follows", "read", SIZE_OF(Node), 8, 8, 0)
    FREED(map_element_gone, "stores_int", "write", -1, 52, 4, 0)
    FREES(deleted_twice, "frees_int", DOUBLE_FREE, 4, 0)
    FREES(array_deleted_twice, "frees_ints", DOUBLE_FREE, 100, 0)
    {"counted_once_too_often", counted_once_too_often, "lets_go", AFTER_FREE, "read", "instruction", 4, 0, 4, 0, "full=quarantine|exit"},
    FREES(unique_twice, "frees_int", DOUBLE_FREE, 4, 0)
    FREES(new_and_free, "frees_c", MISMATCH, 4, 0)
    FREES(array_and_delete, "frees_int", MISMATCH, 100, 0)
    FREES(malloc_and_delete, "frees_int", MISMATCH, 4, 0)
    FREES(other_type, "frees_plain", OTHER_TYPE, SIZE_OF(Node), 0)
    FREES(middle_of_array, "frees_ints", BAD_FREE, 100, 16)
};
MAIN(CASES)
