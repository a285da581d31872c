// Frames of all kinds, each calling a probe at its innermost point.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <signal.h>

typedef void (*probe_fn)(void);

volatile int sink;
// Always zero, which the compiler must not know.
volatile int zero;
static void keep(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

int plain(probe_fn probe, int depth)
{
    if (depth == 0) {
        probe();
        return 1;
    }
    return plain(probe, depth - 1) + zero;
}

// Uses every callee-saved register, rbp too if it is free.
long busy(probe_fn probe, int depth, long a, long b, long c, long d)
{
    long e = a * zero, f = b + zero, g = c ^ zero, h = d - zero, i = e * f + zero;
    if (depth == 0)
        probe();
    else
        sink += busy(probe, depth - 1, e, f, g, h);
    return a + b + c + d + e + f + g + h + i;
}

int with_alloca(probe_fn probe, int depth)
{
    char *space = alloca(16 + depth * 40 + zero);
    keep(space);
    if (depth == 0)
        probe();
    else
        sink += with_alloca(probe, depth - 1);
    keep(space);
    return space[0];
}

int aligned(probe_fn probe, int depth)
{
    _Alignas(64) char space[128];
    keep(space);
    if (depth == 0)
        probe();
    else
        sink += aligned(probe, depth - 1);
    keep(space);
    return space[0];
}

// Aligned, of varying size, and with arguments on the stack: needs a dynamic argument pointer.
int aligned_more(probe_fn probe, int depth, int a, int b, int c, int d, int e, long f, long g)
{
    _Alignas(64) char space[128];
    char *more = alloca(16 + depth * 24 + zero);
    keep(space);
    keep(more);
    if (depth == 0)
        probe();
    else
        sink += aligned_more(probe, depth - 1, b, a, d, c, e, g, f);
    keep(space);
    return space[0] + more[0] + f + g;
}

__attribute__((force_align_arg_pointer)) int realigned(probe_fn probe, int depth)
{
    if (depth == 0)
        probe();
    else
        sink += realigned(probe, depth - 1);
    return sink;
}

// gcc's call-frame information is wrong for the last instructions of functions with a dynamic
// argument pointer: it describes the saved rbp as it was before `pop rbp`, and libgcc's unwinder
// crashes over it. So these are left out when stepping.
static int stepping;

static __thread probe_fn probe_of_callback;
static int compare_with_probe(const void *a, const void *b)
{
    probe_of_callback();
    return *(const int *)a - *(const int *)b;
}

int sorting(probe_fn probe, int depth)
{
    int numbers[3] = {3, 1, 2}, key = 2;
    probe_of_callback = probe;
    qsort(numbers, 3, sizeof *numbers, compare_with_probe);
    return depth + (bsearch(&key, numbers, 3, sizeof *numbers, compare_with_probe) != 0);
}

int everything(probe_fn probe, int depth)
{
    if (depth == 0) {
        sink += sorting(probe, 0);
        return 1;
    }
    switch (depth % 6) {
    case 0: sink += busy(probe, 1, 1, 2, 3, 4); break;
    case 1: sink += with_alloca(probe, 2); break;
    case 2: sink += aligned(probe, 2); break;
    case 3: sink += stepping ? 0 : aligned_more(probe, 2, 1, 2, 3, 4, 5, 6, 7); break;
    case 4: sink += stepping ? 0 : realigned(probe, 1); break;
    default: sink += plain(probe, 3); break;
    }
    return everything(probe, depth - 1) + zero;
}

static void *thread_main(void *probe)
{
    plain((probe_fn)probe, 3);
    return 0;
}

int in_thread(probe_fn probe, int depth)
{
    pthread_t thread;
    pthread_create(&thread, 0, thread_main, (void *)probe);
    pthread_join(thread, 0);
    return depth;
}

static ucontext_t outside, inside;
static probe_fn probe_of_coroutine;
static void coroutine_main(void) { plain(probe_of_coroutine, 3); }

int in_coroutine(probe_fn probe, int depth)
{
    static char stack[256 * 1024];
    probe_of_coroutine = probe;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine_main, 0);
    swapcontext(&outside, &inside);
    return depth;
}

static void raise_signal(void) { raise(SIGUSR1); }

// The handler of the test does the probing, on the stack that the test chose.
int interrupted_call(probe_fn probe, int depth)
{
    (void)probe;
    return with_alloca(raise_signal, depth) + busy(raise_signal, depth, 1, 2, 3, 4);
}

// An instruction that faults; the handler of the test skips its two bytes.
int interrupted_leaf(probe_fn probe, int depth)
{
    (void)probe;
    __asm__ volatile("ud2" : : : "memory");
    return depth;
}

static void nothing(void) {}

// The processor's trap flag, set and cleared with the stack described at every instruction.
#define SWITCH(name, instruction)                                                              \
    __asm__(".text; .local " name "; .type " name ",@function; " name ": .cfi_startproc;"      \
            "pushfq; .cfi_adjust_cfa_offset 8;" instruction "; popfq;"                          \
            ".cfi_adjust_cfa_offset -8; ret; .cfi_endproc; .size " name ", . - " name)
SWITCH("step_on", "orq $0x100, (%rsp)");
SWITCH("step_off", "andq $~0x100, (%rsp)");
extern __attribute__((visibility("hidden"))) void step_on(void), step_off(void);

// Runs all frames one instruction at a time: the handler of SIGTRAP does the probing.
int step_by_step(probe_fn probe, int depth)
{
    (void)probe;
    stepping = 1;
    step_on();
    everything(nothing, depth);
    // Bound lazily: passes through the linkage table and the dynamic linker.
    sink += atoi("0") + (int)strtol("0", 0, 10) + abs((int)labs(sink));
    char *block = malloc(100);
    block = realloc(block, 200000);
    free(block);
    step_off();
    return depth;
}

typedef int (*start_fn)(void *), (*finish_fn)(unsigned char *, void *);
typedef int (*update_fn)(void *, const void *, size_t);

// Hand-written assembly with call-frame information by hand. Without the library: nothing.
int step_through_assembly(probe_fn probe, int depth)
{
    static const char *const names[][3] = {
        {"SHA1_Init", "SHA1_Update", "SHA1_Final"},
        {"SHA256_Init", "SHA256_Update", "SHA256_Final"},
        {"SHA512_Init", "SHA512_Update", "SHA512_Final"},
        {"MD5_Init", "MD5_Update", "MD5_Final"},
    };
    void *library = dlopen("libcrypto.so.3", RTLD_NOW);
    _Alignas(64) static unsigned char state[4096], digest[64], text[400];
    (void)probe;
    for (int i = 0; library && i < 4; i++) {
        start_fn start = (start_fn)dlsym(library, names[i][0]);
        update_fn update = (update_fn)dlsym(library, names[i][1]);
        finish_fn finish = (finish_fn)dlsym(library, names[i][2]);
        step_on();
        start(state);
        update(state, text, sizeof text);
        finish(digest, state);
        step_off();
    }
    return depth;
}
