// The same as commands.c, in C++: `new` and `delete` in all their forms, which throw where there is no memory. The test `firmware_c` does the
// same with a model.
#include <cstdlib>
#include <new>
#include "start.h"

extern "C" {
// Bytes that the C++ library has allocated before `start`, and those of an exception: the test reads them.
volatile uint32_t bytes_before, exception_bytes;
}

static volatile uint32_t ticks, in_interrupt, command;
static volatile uintptr_t task;

extern "C" {
uint32_t clock_of_test() { return ticks; }
uintptr_t task_of_test() { return task; }
uintptr_t interrupt_of_test() { return in_interrupt; }
}

#ifdef GUARD
// What a guard needs is C: it is in a file of its own, commands_cpp_guard.c.
#include <heapledger-firmware.h>
#else
#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_TASKS
#define HEAPLEDGER_RECORDS 100
#define HEAPLEDGER_SITES 64
#define HEAPLEDGER_HISTORY 200
#define HEAPLEDGER_TASK_ROWS 3
#define HEAPLEDGER_PROCESS "program=commands"
#define HEAPLEDGER_TICKS clock_of_test
#define HEAPLEDGER_CLOCK_BITS 8
#define HEAPLEDGER_TICK_NS 1000000
#define HEAPLEDGER_TASK task_of_test
#define HEAPLEDGER_IN_INTERRUPT interrupt_of_test
#include <heapledger-firmware.h>
#endif

enum Form { PLAIN, NOTHROW, ALIGNED, ALIGNED_NOTHROW };

static struct {
    void *block;
    uint32_t bytes;
    Form form;
    bool is_array;
} slots[48];

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

static const std::align_val_t LINE{16};

// The innermost frame.
extern "C" __attribute__((noinline)) void perform(uint32_t command)
{
    auto &slot = slots[command % 48];
    uint32_t bytes = 1 + (command >> 16) % 96, what = command >> 8 & 0x1F;
    if (!slot.block) {
        slot.is_array = command >> 23 & 1;
        slot.bytes = bytes;
        if (what == 0) {
            // More than there is.
            try {
                slot.block = slot.is_array ? ::operator new[](40000) : ::operator new(40000);
                fail(97);
            } catch (const std::bad_alloc &) {
                slot.block = nullptr;
            }
        } else if (what == 1) {
            // A block that nobody knows any more.
            heapledger_freed(reinterpret_cast<void *>(0x1230), HEAPLEDGER_KIND_DELETE);
        } else if (what == 2) {
            slot.form = NOTHROW;
            slot.block = slot.is_array ? ::operator new[](bytes, std::nothrow) : ::operator new(bytes, std::nothrow);
        } else if (what < 5) {
            slot.form = ALIGNED_NOTHROW;
            slot.block = slot.is_array ? ::operator new[](bytes, LINE, std::nothrow) : ::operator new(bytes, LINE, std::nothrow);
        } else if (what < 8) {
            slot.form = ALIGNED;
            slot.block = slot.is_array ? ::operator new[](bytes, LINE) : ::operator new(bytes, LINE);
        } else {
            slot.form = PLAIN;
            slot.block = slot.is_array ? ::operator new[](bytes) : ::operator new(bytes);
        }
    } else if (what == 0 && (command >> 16 & 0x1F) == 0) {
        // Lost, if that does not happen too often.
        slot.block = nullptr;
    } else if (what == 12) {
        // It fails, without an exception that leaves it.
        if (::operator new(40000, std::nothrow)) fail(96);
    } else {
        bool is_sized = what < 19;
        void *block = slot.block;
        slot.block = nullptr;
        switch (slot.form) {
        case NOTHROW:
            if (slot.is_array) ::operator delete[](block, std::nothrow);
            else ::operator delete(block, std::nothrow);
            break;
        case ALIGNED_NOTHROW:
            if (slot.is_array) ::operator delete[](block, LINE, std::nothrow);
            else ::operator delete(block, LINE, std::nothrow);
            break;
        case ALIGNED:
            if (slot.is_array && is_sized) ::operator delete[](block, slot.bytes, LINE);
            else if (slot.is_array) ::operator delete[](block, LINE);
            else if (is_sized) ::operator delete(block, slot.bytes, LINE);
            else ::operator delete(block, LINE);
            break;
        case PLAIN:
            if (slot.is_array && is_sized) ::operator delete[](block, slot.bytes);
            else if (slot.is_array) ::operator delete[](block);
            else if (is_sized) ::operator delete(block, slot.bytes);
            else ::operator delete(block);
            break;
        }
    }
    KEEP(slot.block);
}

// An interrupt does it.
extern "C" void Tick()
{
    in_interrupt = 1;
    perform(command);
    in_interrupt = 0;
    command = 0;
}

/* What random numbers begin with: `cargo xtask firmware` changes it in the linked file. */
extern const volatile uint32_t FIRST_RANDOM;
const volatile uint32_t FIRST_RANDOM = 1;

extern "C" void start()
{
    heapledger_task_begins(0x1000, 1, "first");
    heapledger_task_begins(0x2000, 2, "second");
    task = 0x1000;
    bytes_before = heapledger_live_bytes();
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc &) {
        exception_bytes = heapledger_live_bytes() - bytes_before;
    }
    uint32_t random = FIRST_RANDOM;
    for (int round = 0; round < 10000; round++) {
        random = random * 1664525u + 1013904223u;
        // The upper bits of such numbers are the better ones.
        uint32_t now = (random << 16 | random >> 16) | 1u << 31;
        ticks = ticks + 1;
        command = now;
        task = now >> 26 & 1 ? 0x2000 : 0x1000;
        if ((now >> 27 & 7) == 0) {
            INTERRUPT();
            while (command) ;
        } else {
            perform(now);
        }
    }
    reset();
}
