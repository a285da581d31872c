// What operators of C++ cost when they are recorded: callgrind counts from one call of `segment` to the next, each of 512 pairs.

#include <new>

extern "C" __attribute__((noinline)) void segment() { __asm__ volatile(""); }

namespace {

__attribute__((noinline)) void pair() {
    void *block = ::operator new(24);
    __asm__ volatile("" : "+r"(block) : : "memory");
    ::operator delete(block);
}

} // namespace

int main() {
    for (int round = 0; round < 8; round++) {
        segment();
        for (int index = 0; index < 512; index++) pair();
    }
    segment();
}
