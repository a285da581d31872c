// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Exceptions across many frames, with destructors that free on the way and a foreign (C, qsort) frame in the middle.
#include "later_blocks.h"
#include <memory>
#include <stdexcept>
#include <string>

__attribute__((noipa)) static int descend(int depth)
{
    auto held = std::make_unique<std::string>(std::string(100 + depth, 'y'));
    if (depth == 0)
        throw std::runtime_error("from the bottom, long enough to be kept on the heap as a string of its own");
    int r = descend(depth - 1);
    return r + (int)held->size();
}
static int compare(const void *, const void *)
{
    std::string s(200, 'z');
    if (s.size() == 200)
        throw 17;
    return 0;
}

int main()
{
    int caught = 0;
    for (int depth = 0; depth < 200; depth++)
        try {
            descend(depth);
        } catch (const std::exception &e) {
            caught += e.what()[0] == 'f';
        }
    for (int i = 0; i < 100; i++)
        try {
            int a[4] = {4, 3, 2, 1};
            qsort(a, 4, sizeof *a, compare);
        } catch (int n) {
            caught += n == 17;
        }
    std::exception_ptr stored;
    try {
        descend(50);
    } catch (...) {
        stored = std::current_exception();
    }
    try {
        std::rethrow_exception(stored);
    } catch (const std::runtime_error &) {
        caught++;
    }
    later_blocks();
    printf("caught %d\n", caught);
    CHECK(caught == 301);
}
