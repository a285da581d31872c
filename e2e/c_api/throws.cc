// Operators of C++ under hooks and calls that fail on purpose. Prints "whole".

#define HEAPLEDGER_WEAK
#include "check.h"

#include <heapledger.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

volatile int gave, taken, refused;
const char *volatile last = "";

void notes(const heapledger_event *event, void *) {
    static char name[32];
    strcpy(name, event->function);
    last = name;
    if (event->what == HEAPLEDGER_EVENT_GAVE) gave = gave + 1;
    if (event->what == HEAPLEDGER_EVENT_TAKES_BACK) taken = taken + 1;
    if (event->what == HEAPLEDGER_EVENT_REFUSED) refused = refused + 1;
}

template <class F> bool throws(F f) {
    try {
        f();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

struct alignas(64) Aligned {
    char bytes[64];
};

// Stacks begin with whoever wrote new.
__attribute__((noinline)) void *operators(int which) {
    void *block = which == 0   ? ::operator new(8)
                  : which == 1 ? ::operator new[](8)
                  : which == 2 ? ::operator new(8, std::nothrow)
                               : ::operator new(64, std::align_val_t(64));
    __asm__ volatile("" : "+r"(block));
    return block;
}

void traces() {
    static std::size_t buffer[1000];
    heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 4, 0, 1};
    int trace = heapledger_trace_start(buffer, 1000, &options);
    CHECK(trace > 0);
    for (int which = 0; which < 4; which++) {
        void *block = kept(operators(which));
        heapledger_trace_record record;
        record.size = sizeof record;
        EQUAL(heapledger_trace_get(trace, 0, &record), 0);
        CHECK(record.block == block && record.depths[0] > 1);
        std::size_t frame = reinterpret_cast<std::size_t>(record.stacks[0][0]), first = reinterpret_cast<std::size_t>(&operators);
        CHECK(frame > first && frame - first < 300);
        if (which == 3) ::operator delete(block, std::align_val_t(64));
        else if (which == 1) ::operator delete[](block);
        else ::operator delete(block);
        EQUAL(heapledger_trace_count(trace), 0);
    }
    EQUAL(heapledger_trace_end(trace), 0);
}

} // namespace

int main() {
    CHECK(HEAPLEDGER_PRESENT());
    // What throwing needs is there before.
    CHECK(throws([] { kept(::operator new(static_cast<std::size_t>(-1) / 4)); }));
    int hooks[] = {heapledger_on_alloc(notes, nullptr), heapledger_on_free(notes, nullptr), heapledger_on_refused(notes, nullptr)};

    {
        auto one = std::make_unique<int>(7);
        kept(one.get());
        EQUAL(gave, 1);
        CHECK(std::strcmp(last, "new") == 0);
    }
    EQUAL(taken, 1);
    CHECK(std::strncmp(last, "delete", 6) == 0);
    delete static_cast<Aligned *>(kept(new Aligned));
    delete[] static_cast<char *>(kept(new char[100]));
    EQUAL(gave, 3);
    EQUAL(taken, 3);

    int fault = heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 1, nullptr);
    CHECK(throws([] { kept(::operator new(24)); }));
    EQUAL(refused, 1);
    EQUAL(heapledger_fail_calls(fault), 1 + (gave - 3)); // the exception itself is a block
    EQUAL(heapledger_fail_failed(fault), 1);
    EQUAL(heapledger_fail_end(fault), 0);

    fault = heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 1, nullptr);
    CHECK(kept(::operator new(24, std::nothrow)) == nullptr);
    EQUAL(refused, 2);
    EQUAL(heapledger_fail_end(fault), 0);

    fault = heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 1, nullptr);
    std::vector<int> numbers;
    CHECK(throws([&] { numbers.push_back(1); }));
    numbers.push_back(1);
    EQUAL(numbers.size(), 1);
    EQUAL(heapledger_fail_end(fault), 0);

    fault = heapledger_fail(HEAPLEDGER_RULE_NTH, 1, 1, nullptr);
    CHECK(throws([] { kept(new Aligned); }));
    EQUAL(heapledger_fail_end(fault), 0);
    EQUAL(refused, 4);
    // Linked with --wrap nobody sees how the operator of a shared library fails.
    CHECK(throws([] { kept(::operator new(static_cast<std::size_t>(-1) / 4)); }));
#ifdef FAILS_UNSEEN
    EQUAL(refused, 4);
#else
    EQUAL(refused, 5);
#endif
    for (int hook : hooks) EQUAL(heapledger_hook_end(hook), 0);
    traces();
    puts("whole");
}
