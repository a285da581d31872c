/* How firmware in C begins on a Cortex-M3 and on a RISC-V processor as QEMU has them, what it can say, and memory for the C library's heap.
   (`start.rs` is the same in Rust.) */
#include <stddef.h>
#include <stdint.h>
#include "start.h"

extern uint32_t bss_start[], bss_end[], data_start[], data_end[], data_load[], stack_top[];
extern void (*init_start[])(void), (*init_end[])(void);

/* The C library's heap: what it cannot give is not there. */
uint8_t heap[HEAP_BYTES] __attribute__((aligned(8)));

void *_sbrk(ptrdiff_t more)
{
    static ptrdiff_t used;
    if (used + more > (ptrdiff_t)sizeof heap) return (void *)-1;
    used += more;
    return heap + used - more;
}

/* C++ knows by it which program's destructors are meant. */
void *__dso_handle;

void *sbrk(ptrdiff_t more) { return _sbrk(more); }

/* What newlib may call of a system: there is none. */
#ifdef __arm__
void _exit(int status) { fail((uint32_t)status); }
int _kill(int process, int signal) { (void)process; fail((uint32_t)signal); }
int _getpid(void) { return 1; }
int _close(int file) { (void)file; return -1; }
int _isatty(int file) { (void)file; return 0; }
int _fstat(int file, void *about) { (void)file; (void)about; return -1; }
int _lseek(int file, int where, int how) { (void)file; (void)where; (void)how; return -1; }
int _read(int file, void *to, int bytes) { (void)file; (void)to; (void)bytes; return -1; }
int _write(int file, const void *from, int bytes) { (void)file; (void)from; (void)bytes; return -1; }
#endif

void begin(void)
{
    uint32_t *from = data_load, *to;
    void (**init)(void);
    for (to = bss_start; to < bss_end; to++) *to = 0;
    for (to = data_start; to < data_end; to++) *to = *from++;
    for (init = init_start; init < init_end; init++) (*init)();
    start();
    fail(98);
}

static void ask(uintptr_t what, const void *about)
{
#ifdef __arm__
    register uintptr_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = about;
    __asm__ volatile("bkpt #0xab" : "+r"(r0) : "r"(r1) : "memory");
#else
    register uintptr_t a0 __asm__("a0") = what;
    register const void *a1 __asm__("a1") = about;
    __asm__ volatile("call semihosting" : "+r"(a0) : "r"(a1) : "memory", "ra");
#endif
}

void fail(uint32_t status)
{
    uint32_t block[2];
    block[0] = 0x20026;
    block[1] = status;
    for (;;) ask(0x20, block);
}

void store(uintptr_t where, uint32_t what) { *(volatile uint32_t *)where = what; }

void reset(void)
{
#ifdef __arm__
    store(0xE000ED0C, 0x05FA0004);
#else
    store(0x100000, 0x7777);
#endif
    for (;;) ;
}

void print(const char *text) { ask(4, text); }

void say(const char *word, uint32_t number)
{
    char digits[12];
    int at = 11;
    digits[at] = 0;
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    ask(4, word);
    ask(4, " ");
    ask(4, digits + at);
    ask(4, "\n");
}

#ifdef __arm__
__attribute__((weak)) void Fault(void) { fail(99); }
void Monitor(void) __attribute__((weak, alias("Fault")));
void Nothing(void) {}
void Tick(void) __attribute__((weak, alias("Fault")));
void Supervise(void) __attribute__((weak, alias("Fault")));
void Switch(void) __attribute__((weak, alias("Fault")));
void Asked(void) __attribute__((weak, alias("Fault")));

__attribute__((naked, noreturn)) void Reset(void)
{
    /* The outermost frame: frame pointers end here. */
    __asm__ volatile("movs r7, #0\n\tbl begin");
}

__attribute__((section(".vectors"), used)) void *const vectors[17] = {
    stack_top, Reset, Fault, Fault, Fault, Fault, Fault, 0, 0, 0, 0, Supervise, Monitor, 0, Switch, Tick, Asked};
#else
/* Thread-local variables of the C library, errno among them. */
uint8_t thread_locals[256] __attribute__((aligned(16)));

__attribute__((weak)) void Tick(void) { fail(99); }
__attribute__((weak)) void trapped(void)
{
    uint32_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    if (!(cause >> 31)) fail(99);
    store(0x2000000, 0);
    Tick();
}

__asm__(
    ".section .vectors, \"ax\"\n"
    ".global Reset\n"
    "Reset: .option push\n .option norelax\n"
    "la sp, stack_top\n la t0, Trap\n csrw mtvec, t0\n la tp, thread_locals\n"
    ".option pop\n li s0, 0\n call begin\n"
    ".text\n .balign 4\n"
    "Trap: addi sp, sp, -64\n"
    "sw ra, 0(sp)\n sw t0, 4(sp)\n sw t1, 8(sp)\n sw t2, 12(sp)\n sw t3, 16(sp)\n sw t4, 20(sp)\n sw t5, 24(sp)\n sw t6, 28(sp)\n"
    "sw a0, 32(sp)\n sw a1, 36(sp)\n sw a2, 40(sp)\n sw a3, 44(sp)\n sw a4, 48(sp)\n sw a5, 52(sp)\n sw a6, 56(sp)\n sw a7, 60(sp)\n"
    "call trapped\n"
    "lw ra, 0(sp)\n lw t0, 4(sp)\n lw t1, 8(sp)\n lw t2, 12(sp)\n lw t3, 16(sp)\n lw t4, 20(sp)\n lw t5, 24(sp)\n lw t6, 28(sp)\n"
    "lw a0, 32(sp)\n lw a1, 36(sp)\n lw a2, 40(sp)\n lw a3, 44(sp)\n lw a4, 48(sp)\n lw a5, 52(sp)\n lw a6, 56(sp)\n lw a7, 60(sp)\n"
    "addi sp, sp, 64\n mret\n"
    /* A call of the debugger's is three instructions, which may not lie on two pages. */
    ".balign 16\n .option push\n .option norvc\n"
    "semihosting: slli zero, zero, 0x1f\n ebreak\n srai zero, zero, 7\n ret\n .option pop\n");
#endif
