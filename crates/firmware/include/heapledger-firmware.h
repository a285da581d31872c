/* heapledger-firmware.h: firmware in C or C++ keeps a ledger of its heap, in its own memory.
 *
 * One file of the firmware says what is recorded and how much there is room for; nothing has to be started:
 *
 *     #define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_MINIMAL
 *     #define HEAPLEDGER_RECORDS 200
 *     #define HEAPLEDGER_SITES 512
 *     #include <heapledger-firmware.h>
 *
 * and the linker leads calls to the library:
 *
 *     -Wl,--gc-sections,--wrap=malloc,--wrap=free,--wrap=calloc,--wrap=realloc libheapledger_firmware.a
 *
 * Which functions there are, and how the library is built: docs/firmware.md. What is defined before the file is included, in that one file:
 *
 *   HEAPLEDGER_IMPLEMENTATION    the layout: HEAPLEDGER_MINIMAL, HEAPLEDGER_TASKS or HEAPLEDGER_EVERYTHING; HEAPLEDGER_FIXED, if the library
 *                                was built for this firmware: of what follows only functions are defined then, and HEAPLEDGER_CODE
 *   HEAPLEDGER_RECORDS           live blocks: 1 to 65,534
 *   HEAPLEDGER_SITES             nodes of the tree of call stacks: 64 to 1,024, else to 4,096
 *   HEAPLEDGER_DEPTH             most frames of a stack: 1 to 16 (8)
 *   HEAPLEDGER_STACK             how they are found: heapledger_frame_pointers, heapledger_scan, or a function of your own (none: a stack
 *                                is the address behind the call)
 *   HEAPLEDGER_CODE              where code lies, for heapledger_scan, which finds nothing without: FIRST, END
 *   HEAPLEDGER_STACK_END         uintptr_t F(uintptr_t within): one past the last byte of the stack with this address, 0: not known.
 *                                (Cortex-M: the vector table says where the main stack ends)
 *   HEAPLEDGER_ENTER             uint32_t F(void), and
 *   HEAPLEDGER_LEAVE             void F(uint32_t): a critical section, which may lie in another one (interrupts off)
 *   HEAPLEDGER_TASK              uintptr_t F(void): the handle of the task that runs, an even number, or 0. Wherever there are tasks, also
 *                                with HEAPLEDGER_MINIMAL, which does not record it: each of them has a stack of its own
 *   HEAPLEDGER_IN_INTERRUPT      uintptr_t F(void): the number of the interrupt whose handler runs, or 0 (Cortex-M: known)
 *   HEAPLEDGER_FREERTOS          both for FreeRTOS: heapledger-freertos.h
 *   HEAPLEDGER_NESTED            calls that may be under way at a time, in all tasks (4); 0: no function that is led to the library calls
 *                                another one of these, which takes less of everything
 *   HEAPLEDGER_SECTION           the linker's section for the ledger, which is set to zero at the start: ".sdram"
 *   HEAPLEDGER_SURVIVES          the section survives a reset, and is not set to zero: heapledger_survivor()
 *   HEAPLEDGER_SCARCE            void F(void): called when for the first time
 *   HEAPLEDGER_WARN_RECORDS      so many records are in use (four of five)
 *
 * With a library that was built with its feature `guard`, and only with that:
 *
 *   HEAPLEDGER_GUARD             HEAPLEDGER_LIGHT: canaries around blocks; HEAPLEDGER_FULL: and fills
 *   HEAPLEDGER_GUARDED           where the blocks lie, one to four: HEAPLEDGER_GUARDED_HEAP(FIRST, BYTES); how many bytes must be constant.
 *                                A bit for each eight of them is set aside, with HEAPLEDGER_FULL two
 *   HEAPLEDGER_ERRORS            different errors that are kept (8), 200 bytes each
 *   HEAPLEDGER_DAMAGED           void F(const struct heapledger_damage *): damage was found. It neither allocates nor frees
 *
 * With a library that was built with its feature `hooks`, which needs it:
 *
 *   HEAPLEDGER_ENTERED           void F(const struct heapledger_entered *): is told of each block that begins or ends, and of each call that gave none, with interrupts off, once
 *                                that is in the ledger. It neither allocates nor frees
 *
 * With HEAPLEDGER_TASKS and HEAPLEDGER_EVERYTHING also:
 *
 *   HEAPLEDGER_HISTORY           freed blocks that are kept: 1 to 65,535
 *   HEAPLEDGER_TASK_ROWS         tasks, interrupts together one: 1 to 254
 *   HEAPLEDGER_TICKS             uint32_t F(void): a clock that counts up: heapledger_systick, heapledger_cycles, or your own
 *   HEAPLEDGER_CLOCK_BITS        how many bits it has (32)
 *   HEAPLEDGER_TICK_NS           nanoseconds of its tick (0: not known)
 *   HEAPLEDGER_PROCESS           what is known of the firmware: "program=thermostat" ("version=1.2\0board=a" are two)
 *   HEAPLEDGER_BUILD_ID          where the linker's note of the build id lies, of up to 20 bytes: FIRST, END
 *
 * With HEAPLEDGER_EVERYTHING also:
 *
 *   HEAPLEDGER_HEAPS             one to four: HEAPLEDGER_HEAP("internal", FIRST, END), HEAPLEDGER_HEAP("external", FIRST, END)
 *   HEAPLEDGER_ACTUAL            size_t F(const void *block): bytes that a block really has, or 0: malloc_usable_size
 *
 * C99 and C++. For 32-bit ARM (Thumb) and RISC-V. Licence: MIT OR Apache-2.0.
 */
#ifndef HEAPLEDGER_FIRMWARE_H
#define HEAPLEDGER_FIRMWARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who holds which block, with call stacks. Blocks up to 65,534 bytes are exact. A live block takes 14.5 bytes. */
#define HEAPLEDGER_MINIMAL 1
/* And since when, in which task; and freed blocks. Up to 1,048,574 bytes; a live block takes 22.5 bytes, a freed one 32. */
#define HEAPLEDGER_TASKS 2
/* And in which heap, with the bytes that it really has. It takes the same. */
#define HEAPLEDGER_EVERYTHING 3
/* What the library was built for: HEAPLEDGER_FIXED of its environment. */
#define HEAPLEDGER_FIXED 4

/* Answers below 0, as in heapledger.h. */
enum heapledger_errors {
    HEAPLEDGER_E_NO_ROOM = -2, /* there is no room for it; that was counted */
    HEAPLEDGER_E_UNKNOWN = -4, /* no block of the ledger begins there */
    HEAPLEDGER_E_INVALID = -5, /* an argument cannot be */
    HEAPLEDGER_E_ABSENT = -6   /* the processor has none */
};

/* Functions that give blocks, and that take them: what reports call them. */
enum heapledger_kinds {
    HEAPLEDGER_KIND_POOL = 0,
    HEAPLEDGER_KIND_MALLOC = 1,
    HEAPLEDGER_KIND_CALLOC = 2,
    HEAPLEDGER_KIND_REALLOC = 3,
    HEAPLEDGER_KIND_MEMALIGN = 7,
    HEAPLEDGER_KIND_MALLOC_R = 13,
    HEAPLEDGER_KIND_NEW = 16,
    HEAPLEDGER_KIND_PV_PORT_MALLOC = 25,
    HEAPLEDGER_KIND_V_PORT_FREE = 25,
    HEAPLEDGER_KIND_HEAP_CAPS_MALLOC = 27,
    HEAPLEDGER_KIND_HEAP_CAPS_FREE = 27,
    HEAPLEDGER_KIND_FREE = 32,
    HEAPLEDGER_KIND_K_MALLOC = 36,
    HEAPLEDGER_KIND_K_FREE = 36,
    HEAPLEDGER_KIND_DELETE = 40
};

/* In place of the number of a heap: the one in which the block's address lies. */
#define HEAPLEDGER_BY_ADDRESS (-1)

/* What HEAPLEDGER_ENTERED is told, with the feature `hooks`: a block began, one ended (or a free of no block), a call gave none. */
enum heapledger_what { HEAPLEDGER_BEGAN = 0, HEAPLEDGER_ENDED = 1, HEAPLEDGER_GAVE_NONE = 2 };
struct heapledger_entered {
    uint32_t what, kind; /* enum heapledger_kinds; 0 with HEAPLEDGER_GAVE_NONE */
    const void *block;
    uint32_t bytes;      /* of one that began */
    uint32_t live_bytes; /* in all blocks that live now */
    uint32_t time;       /* in ticks; 0 where they are not recorded */
};

/* ---- Tasks ---- */

/* A task begins: its handle, a number and a name for reports. 1, or 0: there is no row left. A task that is not told of gets a row without a
   name with its first block. */
int heapledger_task_begins(uintptr_t handle, uint32_t id, const char *name);

/* It is gone. Its row stays, and so do its blocks. */
void heapledger_task_ends(uintptr_t handle);

/* ---- The ledger ---- */

/* Reads the clock: to be called now and then, if nobody may allocate for as long as it takes to go once round. */
void heapledger_note_time(void);

/* Bytes that were asked for, in all blocks that live. */
uint32_t heapledger_live_bytes(void);

/* Whether a block that begins there is in the ledger. */
int heapledger_is_live(const void *block);

/* What was counted: blocks that began and their bytes, blocks that ended and theirs, calls that gave no block, and blocks that found no room in the ledger (which are in none of the
   others). They go round at the end of 32 bits. */
struct heapledger_sums {
    uint32_t allocations, bytes_allocated, frees, bytes_freed, failed_calls, lost;
};

/* A window in time: what is allocated and freed while it is open. It lies in the firmware's memory, takes nothing of the ledger, and there may be any number. Nobody looks inside, and readers
   of the ledger do not know of it. These answer 1; 0: the ledger is in the middle of an update (they were called from within one). */
struct heapledger_window {
    uint32_t kept[8];
};
int heapledger_window_open(struct heapledger_window *window);
int heapledger_window_pause(struct heapledger_window *window);  /* or: it is over */
int heapledger_window_resume(struct heapledger_window *window);
int heapledger_window_sums(const struct heapledger_window *window, struct heapledger_sums *sums);
/* The number of its first block, by which readers find those that began in it: heapledger dump --where 'number >= NUMBER'. One that opens when it is over has the number with which they end. */
uint32_t heapledger_window_first(const struct heapledger_window *window);

/* What a task has done, and what it holds: blocks that it began and their bytes, blocks that it ended, whoever began them; of those that it began, how many live, and their
   bytes. */
struct heapledger_account {
    uint32_t allocations, bytes_allocated, frees, live_blocks, live_bytes;
};
/* That of a task, also of one that is gone, by its handle; HEAPLEDGER_INTERRUPTS: of interrupts. It takes one look at each record. 1; 0: there is no row of it. */
#define HEAPLEDGER_INTERRUPTS (~(uintptr_t)0)
int heapledger_task_account(uintptr_t handle, struct heapledger_account *account);

/* Copies the ledger to where there is room for so many words (NULL: nowhere), and answers how many it has; 0: it is in the middle of an
   update. */
size_t heapledger_copy(uint32_t *to, size_t words);

/* Readers are told that recording is over: by a handler of faults, say. */
void heapledger_stop(void);

/* With HEAPLEDGER_SURVIVES: called first, before anything allocates. If there is a whole ledger of the time before the last reset, it is
   shown, with interrupts off, to be carried off: its words, how many, and `context`. Answers whether there was one. (An update may have been under way when the reset came:
   readers see that.) Then a new one begins. */
typedef void (*heapledger_look)(const uint32_t *ledger, size_t words, void *context);
int heapledger_survivor(heapledger_look look, void *context);

/* ---- Who writes there, and faults ---- */

/* Has the processor tell whoever writes to 1, 2 or 4 bytes, at a multiple of that, without a debugger: an exception follows, whose handler calls
   heapledger_written(). On a Cortex-M3, M4 or M7 it is DebugMonitor, on RISC-V (in machine mode) cause 3: there it comes before the instruction on most, and the watch is over with the
   first write. The number of the watch; HEAPLEDGER_E_ABSENT if the processor has none that firmware can set (a Cortex-M0), HEAPLEDGER_E_NO_ROOM if all are in use,
   HEAPLEDGER_E_INVALID. HEAPLEDGER_WATCH_FIRST is set in the number where the processor compares with one address only: then it tells of writes that begin with the first byte.
   With a debugger attached it halts instead. */
#define HEAPLEDGER_WATCH_FIRST 0x100
int heapledger_watch(const void *address, size_t bytes);

/* Ends it. 0, or HEAPLEDGER_E_UNKNOWN. */
int heapledger_unwatch(int watch);

/* Who has written: the watched bytes, the instruction (or the one behind it), where its function returns to (if it calls no other), 0 if that is not known; which watch it was,
   and whether it is over. */
struct heapledger_written {
    const void *address;
    size_t bytes;
    uintptr_t code, link;
    int watch, is_over;
};

/* Where the processor could not go on: CFSR of a Cortex-M3 and later, or mcause; the address that was accessed; 0 if that is not known. */
struct heapledger_fault {
    uintptr_t code, link, status, address;
};

/* For a handler: what it has found when it began, four words. Cortex-M: lr, msp, psp, r7 (the macros below); RISC-V: ra and s0 of what was interrupted, and nothing. 1: somebody has written to
   what is watched, which is an error of the ledger (watched-write) if that has room for errors; 0: it was something else. */
int heapledger_written(const uintptr_t *found, struct heapledger_written *what);

/* The same in a handler of faults: it is an error of the ledger (processor-fault), if that has room for errors, and recording is over. */
void heapledger_faulted(const uintptr_t *found, struct heapledger_fault *what);

#if defined(__arm__)
#define HEAPLEDGER_HANDLER_(name, work) \
    __attribute__((naked)) void name(void) \
    { \
        __asm__ volatile("mov r0, lr\n\tmrs r1, msp\n\tmrs r2, psp\n\tmov r3, r7\n\tpush {r0, r1, r2, r3, r7, lr}\n\t" \
                         "mov r0, sp\n\tbl " #work "\n\tadd sp, #16\n\tpop {r7, pc}"); \
    }
/* Defines a handler: HEAPLEDGER_WATCH_HANDLER(DebugMon_Handler, told), with a function void told(const struct heapledger_written *). */
#define HEAPLEDGER_WATCH_HANDLER(name, told) \
    __attribute__((used)) void name##_work_(const uintptr_t *found) \
    { \
        struct heapledger_written what; \
        if (heapledger_written(found, &what)) told(&what); \
    } \
    HEAPLEDGER_HANDLER_(name, name##_work_)
/* The same of faults: HEAPLEDGER_FAULT_HANDLER(HardFault_Handler, told), with a function void told(const struct heapledger_fault *) that does not return. */
#define HEAPLEDGER_FAULT_HANDLER(name, told) \
    __attribute__((used)) void name##_work_(const uintptr_t *found) \
    { \
        struct heapledger_fault what; \
        heapledger_faulted(found, &what); \
        told(&what); \
        for (;;) ; \
    } \
    HEAPLEDGER_HANDLER_(name, name##_work_)
#endif

/* ---- Guarded blocks (feature `guard`) ---- */

#define HEAPLEDGER_LIGHT 1
#define HEAPLEDGER_FULL 2

/* Looks at all guarded blocks, and at filled memory: how many are damaged. Each is entered as an error. */
uint32_t heapledger_check_integrity(void);
/* The same of one heap, by its place in HEAPLEDGER_GUARDED. */
uint32_t heapledger_check_heap(size_t heap);
/* Of one block: 1 damaged, 0 not, HEAPLEDGER_E_UNKNOWN. */
int heapledger_check_block(const void *block);

/* A check in steps, of a block or some hundred bytes each, for firmware with little time. It begins with zeros. 1 damaged, 0 not, -1: there is nothing more. */
struct heapledger_sweep {
    uint32_t kept[3];
};
int heapledger_check_step(struct heapledger_sweep *sweep);

/* What HEAPLEDGER_DAMAGED is told of. */
struct heapledger_damage;
/* The kind of error (FORMAT.md: 22 behind a block, 23 in front of it, 24 in freed memory, 3 freed twice, 4 freed and no block). Where, and how many bytes, to
   what is not null. */
int heapledger_damage_kind(const struct heapledger_damage *found, uintptr_t *address, size_t *bytes);
/* Says it as ESP-IDF does, letter by letter, in lines such as "CORRUPT HEAP: Bad head at 0x20000104. Expected 0xabba1234 got 0xabba1235". */
void heapledger_say_damage(const struct heapledger_damage *found, void (*put)(int letter));

/* ---- Allocators that the linker does not lead to the library ---- */

/* One has given a block. By which function: one of enum heapledger_kinds. Its stack is the caller's. */
int heapledger_allocated(int heap, const void *block, size_t bytes, int kind);

/* It is about to take one back. */
int heapledger_freed(const void *block, int kind);

/* What is kept while a block is resized. Nobody looks inside. */
struct heapledger_resize {
    uint32_t kept[6];
};

/* It is about to resize one. Always followed by: */
int heapledger_resizing(const void *block, struct heapledger_resize *kept);

/* It has; NULL: it could not, and the block is as it was (of 0 bytes: the block is gone). */
int heapledger_resized(struct heapledger_resize *kept, int heap, const void *block, size_t bytes, int kind);

/* It had no block. */
int heapledger_refused(void);

/* ---- Stacks and clocks, for the definitions above ---- */

/* Frames that are being found, the innermost first. */
struct heapledger_frames;

/* Along frame pointers: clang's with -fno-omit-frame-pointer, on RISC-V gcc's too. (gcc's on Thumb lead nowhere.) */
void heapledger_frame_pointers(uintptr_t frame, struct heapledger_frames *frames);

/* By return addresses on the stack. Frames but the first are guesses, and the ledger says so. */
void heapledger_scan(uintptr_t frame, struct heapledger_frames *frames);

/* A function of your own: `frame` is where the registers of the call lie, two words: the caller's frame pointer (r7, s0) and
   where it will return to; on RISC-V they lie below that address. It tells of each frame that it finds; 0: there is no room for more. */
int heapledger_push_frame(struct heapledger_frames *frames, uintptr_t code);

/* Some of them are guesses. */
void heapledger_guessed(struct heapledger_frames *frames);

/* SysTick, as a clock of 24 bits that counts up: it must run through all of them. (Cortex-M) */
uint32_t heapledger_systick(void);

/* The cycle counter, 32 bits. On a Cortex-M it counts after heapledger_start_cycles(); a Cortex-M0 has none. */
uint32_t heapledger_cycles(void);
void heapledger_start_cycles(void);

/* ---- For debuggers, which find them by these names ---- */

extern uint32_t heapledger_ledger[];
void heapledger_update_done(void);  /* an update is complete */
void heapledger_history_full(void); /* from now on the oldest frees are overwritten */
void heapledger_records_full(void); /* a block found no room */
void heapledger_sites_full(void);   /* a stack found none */

/* ---- What the library knows of the firmware ---- */

/* A heap: its name, of which 16 bytes are kept, its first byte, and one past its last. */
struct heapledger_heap {
    const char *name;
    size_t name_bytes;
    const void *first;
    const void *end;
};
#define HEAPLEDGER_HEAP(name, first, end) {(name), sizeof(name) - 1, (first), (end)}

/* How much there is room for, and which word of the ledger it begins with. */
struct heapledger_room {
    uint32_t records;
    uint32_t history, history_at;
    uint32_t sites, places, sites_at;
    uint32_t tasks, tasks_at;
    uint32_t heaps, heaps_at;
    uint32_t names_bytes, strings_at;
    uint32_t process_bytes, process_at;
    uint32_t counters_at;
    uint32_t cells, index_at;
    uint32_t words;
    uint32_t clock_mask, tick_ns, depth, warn_records;
};

/* A call that is under way. */
struct heapledger_mark {
    uintptr_t kept[2];
};

/* A heap whose blocks are guarded: its bits lie beside it. */
struct heapledger_guarded_heap {
    const void *first;
    size_t bytes;
    uint32_t *begins, *filled, *given;
};
struct heapledger_guard {
    const struct heapledger_guarded_heap *heaps;
    size_t heap_count;
    uint32_t errors, fills;
    void (*damaged)(const struct heapledger_damage *found);
    const struct heapledger_functions *guarding;
};

/* What stands in it where the firmware says nothing else. */
uint32_t heapledger_interrupts_off(void);
void heapledger_interrupts_back(uint32_t before);
uintptr_t heapledger_interrupt(void);
uintptr_t heapledger_find_mark(uintptr_t *word, uint32_t within);
void heapledger_say_build_id(unsigned char *to, size_t vacant);

struct heapledger_board {
    struct heapledger_room room;
    const struct heapledger_heap *heaps;
    const char *process;
    size_t process_bytes;
    const struct heapledger_functions *functions;
    struct heapledger_mark *marks;
    size_t mark_count;
    uintptr_t (*find_mark)(uintptr_t *word, uint32_t within);
    size_t (*actual)(const void *block);
    uint32_t (*enter)(void);
    void (*leave)(uint32_t before);
    uint32_t (*ticks)(void);
    uintptr_t (*task)(void);
    uintptr_t (*in_interrupt)(void);
    uintptr_t (*stack_end)(uintptr_t within);
    void (*stack)(uintptr_t frame, struct heapledger_frames *frames);
    const void *code[2];
    void (*build_id)(unsigned char *to, size_t vacant);
    const void *build_note[2];
    void (*scarce)(void);
};

extern const struct heapledger_board heapledger_board;
extern const struct heapledger_guard heapledger_guard;
extern const struct heapledger_functions heapledger_minimal_1, heapledger_tasks_1, heapledger_everything_1;
extern const struct heapledger_functions heapledger_minimal_surviving_1, heapledger_tasks_surviving_1, heapledger_everything_surviving_1;
/* Apart, and in a section of its own: firmware that resizes nothing has nothing of it. */
extern const struct heapledger_functions *const heapledger_resizing_of_layout;
extern const struct heapledger_functions heapledger_minimal_resizing_1, heapledger_tasks_resizing_1, heapledger_everything_resizing_1;
extern const struct heapledger_functions heapledger_minimal_surviving_resizing_1, heapledger_tasks_surviving_resizing_1,
    heapledger_everything_surviving_resizing_1;

#ifdef __cplusplus
}
#endif

#endif /* HEAPLEDGER_FIRMWARE_H */

/* Here begins what one file of the firmware has; others may have included the above before. */
#if defined(HEAPLEDGER_IMPLEMENTATION) && !defined(HEAPLEDGER_IMPLEMENTED)
#define HEAPLEDGER_IMPLEMENTED

#ifdef __cplusplus
extern "C" {
#endif

#ifdef HEAPLEDGER_ENTERED
extern void heapledger_told_entered(const struct heapledger_entered *what);
void heapledger_told_entered(const struct heapledger_entered *what) { HEAPLEDGER_ENTERED(what); }
#endif

#ifdef HEAPLEDGER_FREERTOS
uintptr_t heapledger_freertos_end;
/* (As soon as there is a task the kernel says that one runs.) */
static uintptr_t heapledger_freertos_task_(void) {
    return heapledger_freertos_end == 0 ? 0 : (uintptr_t)xTaskGetCurrentTaskHandle();
}
static uintptr_t heapledger_freertos_stack_end_(uintptr_t within) {
    (void)within;
    return heapledger_freertos_end;
}
#define HEAPLEDGER_TASK heapledger_freertos_task_
#define HEAPLEDGER_STACK_END heapledger_freertos_stack_end_
#endif

#if HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_FIXED
/* What a library asks that was built for this firmware: no more than what it was built for. */
#ifdef HEAPLEDGER_ENTER
uint32_t heapledger_told_enter(void) { return HEAPLEDGER_ENTER(); }
void heapledger_told_leave(uint32_t before) { HEAPLEDGER_LEAVE(before); }
#endif
#ifdef HEAPLEDGER_TICKS
uint32_t heapledger_told_ticks(void) { return HEAPLEDGER_TICKS(); }
#endif
#ifdef HEAPLEDGER_TASK
uintptr_t heapledger_told_task(void) { return HEAPLEDGER_TASK(); }
#endif
#ifdef HEAPLEDGER_IN_INTERRUPT
uintptr_t heapledger_told_in_interrupt(void) { return HEAPLEDGER_IN_INTERRUPT(); }
#endif
#ifdef HEAPLEDGER_STACK_END
uintptr_t heapledger_told_stack_end(uintptr_t within) { return HEAPLEDGER_STACK_END(within); }
#endif
#ifdef HEAPLEDGER_ACTUAL
size_t heapledger_told_actual(const void *block) { return HEAPLEDGER_ACTUAL(block); }
#endif
#ifdef HEAPLEDGER_SCARCE
void heapledger_told_scarce(void) { HEAPLEDGER_SCARCE(); }
#endif
#ifdef HEAPLEDGER_CODE
extern const void *const heapledger_told_code[2];
const void *const heapledger_told_code[2] = {HEAPLEDGER_CODE};
#endif
#else

#ifndef HEAPLEDGER_DEPTH
#define HEAPLEDGER_DEPTH 8
#endif
#ifndef HEAPLEDGER_NESTED
#define HEAPLEDGER_NESTED 4
#endif
#ifndef HEAPLEDGER_CLOCK_BITS
#define HEAPLEDGER_CLOCK_BITS 32
#endif
#ifndef HEAPLEDGER_TICK_NS
#define HEAPLEDGER_TICK_NS 0
#endif

/* What is not defined is not there. */
#ifndef HEAPLEDGER_ACTUAL
#define HEAPLEDGER_ACTUAL 0
#endif
#ifndef HEAPLEDGER_ENTER
#define HEAPLEDGER_ENTER heapledger_interrupts_off
#endif
#ifndef HEAPLEDGER_LEAVE
#define HEAPLEDGER_LEAVE heapledger_interrupts_back
#endif
#ifndef HEAPLEDGER_TICKS
static uint32_t heapledger_no_ticks_(void) { return 0; }
#define HEAPLEDGER_TICKS heapledger_no_ticks_
#endif
#ifndef HEAPLEDGER_TASK
static uintptr_t heapledger_no_task_(void) { return 0; }
#define HEAPLEDGER_TASK heapledger_no_task_
#endif
#ifndef HEAPLEDGER_IN_INTERRUPT
#define HEAPLEDGER_IN_INTERRUPT heapledger_interrupt
#endif
#ifndef HEAPLEDGER_STACK_END
#define HEAPLEDGER_STACK_END 0
#endif
#ifndef HEAPLEDGER_STACK
#define HEAPLEDGER_STACK 0
#endif
#ifndef HEAPLEDGER_CODE
#define HEAPLEDGER_CODE 0, 0
#endif
#ifndef HEAPLEDGER_SCARCE
#define HEAPLEDGER_SCARCE 0
#undef HEAPLEDGER_WARN_RECORDS
#define HEAPLEDGER_WARN_RECORDS 0
#elif !defined(HEAPLEDGER_WARN_RECORDS)
#define HEAPLEDGER_WARN_RECORDS ((HEAPLEDGER_RECORDS) - (HEAPLEDGER_RECORDS) / 5)
#endif
/* "build_id=", two digits for each of 20 bytes, a zero. */
#ifdef HEAPLEDGER_BUILD_ID
#define HEAPLEDGER_SAY_BUILD_ID_ heapledger_say_build_id
#define HEAPLEDGER_BUILD_ID_BYTES_ 50
#else
#define HEAPLEDGER_BUILD_ID 0, 0
#define HEAPLEDGER_SAY_BUILD_ID_ 0
#define HEAPLEDGER_BUILD_ID_BYTES_ 0
#endif
#ifdef HEAPLEDGER_SURVIVES
#define HEAPLEDGER_NAMES_(layout, what) heapledger_##layout##_surviving_##what
#else
#define HEAPLEDGER_NAMES_(layout, what) heapledger_##layout##_##what
#endif

#ifdef HEAPLEDGER_GUARD
#ifndef HEAPLEDGER_ERRORS
#define HEAPLEDGER_ERRORS 8
#endif
#ifndef HEAPLEDGER_DAMAGED
#define HEAPLEDGER_DAMAGED 0
#endif
/* Two rows of the header; two counters, errors, and five rows of four words. */
#define HEAPLEDGER_GUARD_ROWS_ 10
#define HEAPLEDGER_GUARD_WORDS_ (4 + (HEAPLEDGER_ERRORS) * 50 + 20)
#else
#define HEAPLEDGER_GUARD_ROWS_ 0
#define HEAPLEDGER_GUARD_WORDS_ 0
#endif

/* How the layouts lie in memory: words of the header and of what the recorder notes behind it, of a record, of a freed block. */
#if HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_MINIMAL
#define HEAPLEDGER_NAME_(what) HEAPLEDGER_NAMES_(minimal, what)
#define HEAPLEDGER_FIRST_ (66 + HEAPLEDGER_GUARD_ROWS_)
#define HEAPLEDGER_RECORD_ 3
#define HEAPLEDGER_FREED_ 0
#define HEAPLEDGER_SITES_MAX_ 1024
#undef HEAPLEDGER_HISTORY
#define HEAPLEDGER_HISTORY 0
#undef HEAPLEDGER_TASK_ROWS
#define HEAPLEDGER_TASK_ROWS 0
#define HEAPLEDGER_PROCESS_BYTES_ 0
#define HEAPLEDGER_TEXT_BYTES_ 0
#if HEAPLEDGER_BUILD_ID_BYTES_ != 0
#error "HEAPLEDGER_MINIMAL has no room for HEAPLEDGER_BUILD_ID"
#endif
#elif HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_TASKS || HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_EVERYTHING
#if HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_TASKS
#define HEAPLEDGER_NAME_(what) HEAPLEDGER_NAMES_(tasks, what)
#define HEAPLEDGER_FIRST_ (100 + HEAPLEDGER_GUARD_ROWS_)
#else
#define HEAPLEDGER_NAME_(what) HEAPLEDGER_NAMES_(everything, what)
#define HEAPLEDGER_FIRST_ (112 + HEAPLEDGER_GUARD_ROWS_)
#endif
#define HEAPLEDGER_RECORD_ 5
#define HEAPLEDGER_FREED_ 8
#define HEAPLEDGER_SITES_MAX_ 4096
#ifndef HEAPLEDGER_PROCESS
#define HEAPLEDGER_PROCESS "program=firmware"
#endif
#define HEAPLEDGER_TEXT_BYTES_ sizeof(HEAPLEDGER_PROCESS)
#define HEAPLEDGER_PROCESS_BYTES_ (HEAPLEDGER_TEXT_BYTES_ + HEAPLEDGER_BUILD_ID_BYTES_)
#else
#error "HEAPLEDGER_IMPLEMENTATION is HEAPLEDGER_MINIMAL, HEAPLEDGER_TASKS or HEAPLEDGER_EVERYTHING"
#endif

#if HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_EVERYTHING
#ifndef HEAPLEDGER_HEAPS
#define HEAPLEDGER_HEAPS HEAPLEDGER_HEAP("heap", 0, 0)
#endif
static const struct heapledger_heap heapledger_heaps_[] = {HEAPLEDGER_HEAPS};
enum { heapledger_heap_count_ = sizeof heapledger_heaps_ / sizeof heapledger_heaps_[0] };
#define HEAPLEDGER_HEAPS_ heapledger_heaps_
#else
enum { heapledger_heap_count_ = 0 };
#define HEAPLEDGER_HEAPS_ 0
#endif

#define HEAPLEDGER_NEEDS_(what, so) typedef char heapledger_##what[(so) ? 1 : -1]
HEAPLEDGER_NEEDS_(needs_1_to_65534_records, (HEAPLEDGER_RECORDS) >= 1 && (HEAPLEDGER_RECORDS) <= 65534);
HEAPLEDGER_NEEDS_(needs_64_sites_and_not_too_many, (HEAPLEDGER_SITES) >= 64 && (HEAPLEDGER_SITES) <= HEAPLEDGER_SITES_MAX_);
HEAPLEDGER_NEEDS_(needs_1_to_65535_of_history, HEAPLEDGER_FREED_ == 0 || ((HEAPLEDGER_HISTORY) >= 1 && (HEAPLEDGER_HISTORY) <= 65535));
HEAPLEDGER_NEEDS_(needs_1_to_254_task_rows, HEAPLEDGER_FREED_ == 0 || ((HEAPLEDGER_TASK_ROWS) >= 1 && (HEAPLEDGER_TASK_ROWS) <= 254));
HEAPLEDGER_NEEDS_(needs_a_depth_of_1_to_16, (HEAPLEDGER_DEPTH) >= 1 && (HEAPLEDGER_DEPTH) <= 16);
HEAPLEDGER_NEEDS_(needs_1_to_32_clock_bits, (HEAPLEDGER_CLOCK_BITS) >= 1 && (HEAPLEDGER_CLOCK_BITS) <= 32);
HEAPLEDGER_NEEDS_(needs_at_most_4_heaps, heapledger_heap_count_ <= 4);
HEAPLEDGER_NEEDS_(needs_no_negative_number_of_nested_calls, (HEAPLEDGER_NESTED) >= 0);

/* Nodes that are for innermost frames of stacks that found no room. */
#define HEAPLEDGER_APART_ (((HEAPLEDGER_SITES) - 1) / 18 > 2 ? ((HEAPLEDGER_SITES) - 1) / 18 : 2)

enum {
    heapledger_history_at_ = HEAPLEDGER_FIRST_ + (HEAPLEDGER_RECORDS) * HEAPLEDGER_RECORD_,
    heapledger_sites_at_ = heapledger_history_at_ + (HEAPLEDGER_HISTORY) * HEAPLEDGER_FREED_,
    heapledger_tasks_at_ = heapledger_sites_at_ + (HEAPLEDGER_SITES) * 2,
    heapledger_heaps_at_ = heapledger_tasks_at_ + (HEAPLEDGER_TASK_ROWS) * 11,
    heapledger_strings_at_ = heapledger_heaps_at_ + heapledger_heap_count_ * 6,
    heapledger_process_at_ = heapledger_strings_at_ + heapledger_heap_count_ * 4,
    heapledger_counters_at_ = heapledger_process_at_ + (HEAPLEDGER_PROCESS_BYTES_ + 3) / 4,
    heapledger_index_at_ = heapledger_counters_at_ + 4 + HEAPLEDGER_GUARD_WORDS_,
    heapledger_cells_ = (HEAPLEDGER_RECORDS) + (HEAPLEDGER_RECORDS) / 4 + 1,
    heapledger_words_ = heapledger_index_at_ + (heapledger_cells_ + 1) / 2,
    heapledger_places_ = (HEAPLEDGER_SITES) - 1 - HEAPLEDGER_APART_
};

#ifdef HEAPLEDGER_SECTION
__attribute__((section(HEAPLEDGER_SECTION)))
#endif
uint32_t heapledger_ledger[heapledger_words_];

#if HEAPLEDGER_NESTED == 0
#define HEAPLEDGER_MARKS_ 0
#define HEAPLEDGER_FIND_MARK_ 0
#else
static struct heapledger_mark heapledger_marks_[HEAPLEDGER_NESTED];
#define HEAPLEDGER_MARKS_ heapledger_marks_
#define HEAPLEDGER_FIND_MARK_ heapledger_find_mark
#endif

const struct heapledger_board heapledger_board = {
    {HEAPLEDGER_RECORDS,
     HEAPLEDGER_HISTORY, heapledger_history_at_,
     HEAPLEDGER_SITES, heapledger_places_, heapledger_sites_at_,
     HEAPLEDGER_TASK_ROWS, heapledger_tasks_at_,
     heapledger_heap_count_, heapledger_heaps_at_,
     heapledger_heap_count_ * 16, heapledger_strings_at_,
     HEAPLEDGER_PROCESS_BYTES_, heapledger_process_at_,
     heapledger_counters_at_,
     heapledger_cells_, heapledger_index_at_,
     heapledger_words_,
     0xFFFFFFFFu >> (32 - (HEAPLEDGER_CLOCK_BITS)), HEAPLEDGER_TICK_NS, HEAPLEDGER_DEPTH, HEAPLEDGER_WARN_RECORDS},
    HEAPLEDGER_HEAPS_,
#if HEAPLEDGER_IMPLEMENTATION == HEAPLEDGER_MINIMAL
    0,
#else
    HEAPLEDGER_PROCESS,
#endif
    HEAPLEDGER_TEXT_BYTES_,
    &HEAPLEDGER_NAME_(1),
    HEAPLEDGER_MARKS_,
    HEAPLEDGER_NESTED,
    HEAPLEDGER_FIND_MARK_,
    HEAPLEDGER_ACTUAL,
    HEAPLEDGER_ENTER,
    HEAPLEDGER_LEAVE,
    HEAPLEDGER_TICKS,
    HEAPLEDGER_TASK,
    HEAPLEDGER_IN_INTERRUPT,
    HEAPLEDGER_STACK_END,
    HEAPLEDGER_STACK,
    {HEAPLEDGER_CODE},
    HEAPLEDGER_SAY_BUILD_ID_,
    {HEAPLEDGER_BUILD_ID},
    HEAPLEDGER_SCARCE};

__attribute__((section(".rodata.heapledger_resizing")))
const struct heapledger_functions *const heapledger_resizing_of_layout = &HEAPLEDGER_NAME_(resizing_1);

#ifdef HEAPLEDGER_GUARD
#ifdef __cplusplus
#error "what HEAPLEDGER_GUARD needs is C: have HEAPLEDGER_IMPLEMENTATION in a file in C"
#endif
/* Bits, one for each eight bytes of a heap. (Such a constant at file scope is a static variable.) */
#define HEAPLEDGER_BITS_(bytes) ((uint32_t[((bytes) + 255) / 256]){0})
#if HEAPLEDGER_GUARD == HEAPLEDGER_FULL
#define HEAPLEDGER_GUARDED_HEAP(first, bytes) \
    {(first), (bytes), HEAPLEDGER_BITS_(bytes), HEAPLEDGER_BITS_(bytes), HEAPLEDGER_BITS_(1)}
#elif HEAPLEDGER_GUARD == HEAPLEDGER_LIGHT
#define HEAPLEDGER_GUARDED_HEAP(first, bytes) {(first), (bytes), HEAPLEDGER_BITS_(bytes), 0, 0}
#else
#error "HEAPLEDGER_GUARD is HEAPLEDGER_LIGHT or HEAPLEDGER_FULL"
#endif
static const struct heapledger_guarded_heap heapledger_guarded_[] = {HEAPLEDGER_GUARDED};
enum { heapledger_guarded_count_ = sizeof heapledger_guarded_ / sizeof heapledger_guarded_[0] };
HEAPLEDGER_NEEDS_(needs_at_most_4_guarded_heaps, heapledger_guarded_count_ <= 4);
HEAPLEDGER_NEEDS_(needs_1_to_65535_errors, (HEAPLEDGER_ERRORS) >= 1 && (HEAPLEDGER_ERRORS) <= 65535);
extern const struct heapledger_functions HEAPLEDGER_NAME_(guarding_1), HEAPLEDGER_NAME_(checking_1);
const struct heapledger_guard heapledger_guard = {heapledger_guarded_, heapledger_guarded_count_, HEAPLEDGER_ERRORS,
    HEAPLEDGER_GUARD == HEAPLEDGER_FULL, HEAPLEDGER_DAMAGED, &HEAPLEDGER_NAME_(guarding_1)};
/* Apart: firmware that never checks has nothing of it. */
extern const struct heapledger_functions *const heapledger_checking_of_layout;
__attribute__((section(".rodata.heapledger_checking")))
const struct heapledger_functions *const heapledger_checking_of_layout = &HEAPLEDGER_NAME_(checking_1);
#endif

/* The functions of this layout. */
extern int HEAPLEDGER_NAME_(task_begins)(uintptr_t handle, uint32_t id, const char *name);
extern void HEAPLEDGER_NAME_(task_ends)(uintptr_t handle);
extern void HEAPLEDGER_NAME_(note_time)(void);
extern uint32_t HEAPLEDGER_NAME_(live_bytes)(void);
extern int HEAPLEDGER_NAME_(is_live)(const void *block);
extern int HEAPLEDGER_NAME_(window_now)(struct heapledger_window *window);
extern int HEAPLEDGER_NAME_(account)(uintptr_t handle, struct heapledger_account *account);
extern size_t HEAPLEDGER_NAME_(copy)(uint32_t *to, size_t words);
extern void HEAPLEDGER_NAME_(stop)(void);
extern int HEAPLEDGER_NAME_(written)(const uintptr_t *found, struct heapledger_written *what);
extern void HEAPLEDGER_NAME_(faulted)(const uintptr_t *found, struct heapledger_fault *what);

int heapledger_task_begins(uintptr_t handle, uint32_t id, const char *name) {
    return HEAPLEDGER_NAME_(task_begins)(handle, id, name);
}
void heapledger_task_ends(uintptr_t handle) { HEAPLEDGER_NAME_(task_ends)(handle); }
void heapledger_note_time(void) { HEAPLEDGER_NAME_(note_time)(); }
uint32_t heapledger_live_bytes(void) { return HEAPLEDGER_NAME_(live_bytes)(); }
int heapledger_is_live(const void *block) { return HEAPLEDGER_NAME_(is_live)(block); }
int heapledger_window_open(struct heapledger_window *window) { return HEAPLEDGER_NAME_(window_now)(window); }
int heapledger_task_account(uintptr_t handle, struct heapledger_account *account) { return HEAPLEDGER_NAME_(account)(handle, account); }
size_t heapledger_copy(uint32_t *to, size_t words) { return HEAPLEDGER_NAME_(copy)(to, words); }
void heapledger_stop(void) { HEAPLEDGER_NAME_(stop)(); }
int heapledger_written(const uintptr_t *found, struct heapledger_written *what) { return HEAPLEDGER_NAME_(written)(found, what); }
void heapledger_faulted(const uintptr_t *found, struct heapledger_fault *what) { HEAPLEDGER_NAME_(faulted)(found, what); }
#ifdef HEAPLEDGER_SURVIVES
extern int HEAPLEDGER_NAME_(survivor)(heapledger_look look, void *context);
int heapledger_survivor(heapledger_look look, void *context) { return HEAPLEDGER_NAME_(survivor)(look, context); }
#endif

#endif /* HEAPLEDGER_FIXED */

#ifdef __cplusplus
}
#endif

#endif /* HEAPLEDGER_IMPLEMENTATION */
