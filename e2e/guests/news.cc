// A library that has functions of its own for memory (with -DLIBRARY), and a program that makes objects over it. malloc and free are the C
// library's; what the operators give is no block of theirs: figures stand in front of it, or it comes from a pool (NEWS=pool).
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef LIBRARY
extern "C" {
void *__libc_malloc(size_t);
void __libc_free(void *);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static long calls;

void *malloc(size_t bytes)
{
    calls++;
    return __libc_malloc(bytes);
}

void free(void *block)
{
    __libc_free(block);
}

void *calloc(size_t items, size_t bytes)
{
    calls++;
    return __libc_calloc(items, bytes);
}

void *realloc(void *block, size_t bytes)
{
    calls++;
    return __libc_realloc(block, bytes);
}
}

static const size_t FRONT = 16, PLACE = 256, PLACES = 1000;
static char *pool, *unused;
static long live_bytes;

static bool is_of_pool()
{
    static int known;
    if (known == 0) {
        const char *way = getenv("NEWS");
        known = way && strcmp(way, "pool") == 0 ? 1 : 2;
    }
    return known == 1;
}

static void *take(size_t bytes)
{
    if (!is_of_pool()) {
        size_t *front = static_cast<size_t *>(malloc(bytes + FRONT));
        if (!front)
            throw std::bad_alloc();
        *front = bytes;
        live_bytes += bytes;
        return reinterpret_cast<char *>(front) + FRONT;
    }
    if (!pool) {
        pool = static_cast<char *>(malloc(PLACE * PLACES));
        for (size_t at = 0; at < PLACES; at++) {
            char *place = pool + at * PLACE;
            *reinterpret_cast<char **>(place) = unused;
            unused = place;
        }
    }
    if (bytes > PLACE || !unused)
        throw std::bad_alloc();
    char *place = unused;
    unused = *reinterpret_cast<char **>(place);
    return place;
}

static void give(void *object)
{
    if (!object)
        return;
    char *place = static_cast<char *>(object);
    if (is_of_pool()) {
        *reinterpret_cast<char **>(place) = unused;
        unused = place;
    } else {
        live_bytes -= *reinterpret_cast<size_t *>(place - FRONT);
        free(place - FRONT);
    }
}

void *operator new(size_t bytes) { return take(bytes); }
void *operator new[](size_t bytes) { return take(bytes); }
void operator delete(void *object) noexcept { give(object); }
void operator delete[](void *object) noexcept { give(object); }
void operator delete(void *object, size_t) noexcept { give(object); }
void operator delete[](void *object, size_t) noexcept { give(object); }
#else
#include <cstdio>
#include <unistd.h>

struct Object {
    long words[5];
};

int main()
{
    static Object *kept[50];
    for (int round = 0; round < 2000; round++) {
        Object *&object = kept[round % 50];
        delete object;
        object = new Object();
        object->words[round % 5] = round;
        char *array = new char[round % 200 + 1];
        array[round % 200] = 1;
        delete[] array;
        free(malloc(100));
    }
    for (Object *object : kept)
        delete object;
    // Not by printf, whose buffer would be one block more.
    return write(1, "done\n", 5) == 5 ? 0 : 1;
}
#endif
