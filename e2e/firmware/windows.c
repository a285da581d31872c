/* Windows, accounts of tasks and hooks: 3,000 random commands from three tasks, two windows of which one pauses, and the most that lived for a while. What it says, the test
   `firmware_windows` of e2e holds against a model; windows.rs does the same in Rust. */
#include <stdlib.h>
#include "start.h"

static uintptr_t running = 0x1000;
static uintptr_t task(void) { return running; }

struct heapledger_entered;
static void entered(const struct heapledger_entered *what);
#define HEAPLEDGER_RECORDS 64
#define HEAPLEDGER_SITES 64
#define HEAPLEDGER_HISTORY 16
#define HEAPLEDGER_TASK_ROWS 4
#define HEAPLEDGER_TASK task
#define HEAPLEDGER_NESTED 0
#define HEAPLEDGER_ENTERED entered
#define HEAPLEDGER_IMPLEMENTATION LAYOUT
#include <heapledger-firmware.h>

static uint32_t told[3], bytes_told, is_watched, most;
static void entered(const struct heapledger_entered *what)
{
    told[what->what]++;
    bytes_told += what->bytes;
    if (is_watched && what->what == HEAPLEDGER_BEGAN && what->live_bytes > most) most = what->live_bytes;
}

static uint32_t seed = 2463534242u;
static uint32_t number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static void *slots[32];

__attribute__((noinline)) static void command(uint32_t random)
{
    void **slot = &slots[random % 32];
    running = 0x1000 + (random >> 8) % 3 * 0x1000;
    if (*slot) {
        free(*slot);
        *slot = 0;
    } else {
        *slot = malloc(1 + (random >> 16) % 200);
        if (!*slot) fail(3);
    }
}

static void say_window(const struct heapledger_window *window)
{
    struct heapledger_sums sums;
    if (!heapledger_window_sums(window, &sums)) fail(4);
    say("allocations", sums.allocations);
    say("bytes_allocated", sums.bytes_allocated);
    say("frees", sums.frees);
    say("bytes_freed", sums.bytes_freed);
    say("failed_calls", sums.failed_calls);
    say("lost", sums.lost);
}

void start(void)
{
    struct heapledger_window first, second;
    struct heapledger_account account;
    uint32_t step;
    uintptr_t handle;
    for (step = 0; step < 3000; step++) {
        void *none;
        if (step == 500) heapledger_window_open(&first);
        if (step == 800) {
            is_watched = 1;
            most = heapledger_live_bytes();
        }
        if (step == 1000) heapledger_window_open(&second);
        if (step == 1200) heapledger_window_pause(&second);
        if (step == 1400) heapledger_window_resume(&second);
        if (step == 1450 || step == 1700) {
            none = malloc(1 << 20);
            __asm__ volatile("" : "+r"(none));
            if (none) fail(5);
        }
        if (step == 1500) heapledger_window_pause(&first);
        if (step == 1600) is_watched = 0;
        if (step == 1650) {
            /* It is over: this changes nothing. */
            heapledger_window_pause(&first);
            heapledger_window_resume(&second);
        }
        command(number());
    }
    say_window(&first);
    say_window(&second);
    heapledger_task_ends(0x3000);
    for (handle = 0x1000; handle <= 0x3000; handle += 0x1000) {
        if (!heapledger_task_account(handle, &account)) fail(6);
        say("allocations", account.allocations);
        say("bytes_allocated", account.bytes_allocated);
        say("frees", account.frees);
        say("live_blocks", account.live_blocks);
        say("live_bytes", account.live_bytes);
    }
    /* Nobody has this one, and no interrupt has allocated. */
    if (heapledger_task_account(0x4000, &account) || heapledger_task_account(HEAPLEDGER_INTERRUPTS, &account)) fail(7);
    say("most", most);
    say("began", told[HEAPLEDGER_BEGAN]);
    say("ended", told[HEAPLEDGER_ENDED]);
    say("gave_none", told[HEAPLEDGER_GAVE_NONE]);
    say("bytes_told", bytes_told);
    say("first", heapledger_window_first(&second));
    if (slots[0] && !heapledger_is_live(slots[0])) fail(8);
    if (heapledger_is_live(slots)) fail(9);
    fail(0);
}
