// A program in C++ that records itself: all forms of new and delete, with the blocks that stay.

#include <heapledger.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <vector>

struct alignas(128) Wide {
    char bytes[256];
};

static void *volatile kept[16];

__attribute__((noinline)) static void forms() {
    kept[0] = new char[101];
    kept[1] = new long;
    kept[2] = new (std::nothrow) char[103];
    kept[3] = new (std::nothrow) short;
    kept[4] = new Wide;
    kept[5] = new Wide[3];
    kept[6] = new (std::nothrow) Wide;
    delete new int;
    delete[] new int[7];
    delete new Wide;
    delete[] new Wide[2];
    ::operator delete(::operator new(11), std::nothrow);
    ::operator delete(::operator new(12));
}

__attribute__((noinline)) static void containers() {
    std::map<int, std::string> map;
    for (int index = 0; index < 100; index++) map[index] = std::string(static_cast<std::size_t>(index), 'x');
    kept[7] = new std::vector<int>(1000);
}

// What cannot be is thrown, or null, and leaves nothing behind.
__attribute__((noinline)) static int refused() {
    volatile std::size_t too_many = static_cast<std::size_t>(-1) / 4;
    int caught = 0;
    for (int index = 0; index < 10; index++) {
        try {
            kept[8] = new char[too_many];
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    kept[8] = new (std::nothrow) char[too_many];
    return kept[8] == nullptr ? caught : -1;
}

static int handled;
static void handler() {
    handled++;
    std::set_new_handler(nullptr);
}

int main() {
    forms();
    containers();
    std::set_new_handler(handler);
    int caught = refused();
    std::printf("%d %d %d\n", heapledger_state(), caught, handled);
    return 0;
}
