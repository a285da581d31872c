// flags: -pthread
// stress: 50
// The stack that malloc, realloc and free take of their caller, measured by painting: the first calls of a thread and later ones, on
// its own stack, on an alternate one in a signal handler, on a coroutine's, and where a coroutine's ends soon at a guard page.
// ARG1 later calls in each place (default 3000); ARG2 `told` prints the figures, `unknown` has blocks freed that nobody saw allocated.
#include "victim.h"
#include <ucontext.h>

// The first calls of the main thread are glibc's own need; an alternate stack may have 2 KiB beside the kernel's frame.
enum { PAINTED = 48 << 10, PAGE = 4096, FIRST_MAX = 3584, LATER_MAX = 1024, ELSEWHERE_MAX = 1024 };
static const uint64_t paint = 0xa5a5a5a5a5a5a5a5;
// Bytes that are painted below the caller.
static long painted = PAINTED;
static long later_calls;

static int is_unknown;
extern void *__libc_malloc(size_t);

CALL_SITE void allocate(size_t n)
{
    if (is_unknown) {
        free(opaque(__libc_malloc(n)));
        return;
    }
    char *block = (char *)malloc(n);
    CHECK(block != NULL);
    block = (char *)realloc(opaque(block), 2 * n);
    CHECK(block != NULL);
    free(opaque(block));
}

CALL_SITE void paint_below(void)
{
    unsigned char *here = (unsigned char *)__builtin_frame_address(0);
    for (volatile uint64_t *at = (uint64_t *)(here - painted); at < (uint64_t *)(here - 128); at++)
        *at = paint;
}

// Bytes below this function's caller that are not painted any more.
CALL_SITE long touched_below(void)
{
    unsigned char *here = (unsigned char *)__builtin_frame_address(0);
    uint64_t *at = (uint64_t *)(here - painted + 128);
    while (at < (uint64_t *)(here - 128) && *at == paint)
        at++;
    return here - (unsigned char *)at;
}

struct need { long first, later; };

CALL_SITE struct need measured(void)
{
    struct need need = {0, 0};
    paint_below();
    allocate(100);
    need.first = touched_below();
    for (int i = 0; i < later_calls; i++) {
        paint_below();
        allocate(1 + i % 500);
        long bytes = touched_below();
        if (bytes > need.later)
            need.later = bytes;
    }
    return need;
}

static struct need needs[6];
static int is_told;

static void say(const char *who, struct need need, long first_max, long later_max)
{
    if (is_told)
        printf("%s: first %ld, later %ld\n", who, need.first, need.later);
    else if (!getenv("COUNTER_OUT") && (need.first > first_max || need.later > later_max))
        fprintf(stderr, "%s: %ld bytes at first, %ld later\n", who, need.first, need.later);
    // Another library in between takes what it takes.
    CHECK(is_told || getenv("COUNTER_OUT") || (need.first <= first_max && need.later <= later_max));
}

static void handler(int number)
{
    (void)number;
    needs[2] = measured();
}

static void first_handler(int number)
{
    (void)number;
    needs[3] = measured();
}

static void raise_on_another_stack(void (*with)(int))
{
    stack_t stack = {.ss_size = 2 * PAINTED + (64 << 10)};
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = with, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
}

static ucontext_t outside;

static void coroutine(void)
{
    needs[4] = measured();
}

// The lowest byte of the stack, above its guard page.
static char *stack_low;

CALL_SITE static void near_the_guard_page(void)
{
    long left = (char *)__builtin_frame_address(0) - stack_low;
    // All that is left is painted, but for what this call takes itself.
    painted = left - 256;
    CHECK(left > 2048 && left < PAGE);
    needs[5] = measured();
    painted = PAINTED;
}

// Takes of its stack what leaves less than a page.
static void narrow_coroutine(void)
{
    long left = (char *)__builtin_frame_address(0) - stack_low;
    volatile char *taken = (volatile char *)alloca(left - 3 * 1024);
    taken[0] = 1;
    near_the_guard_page();
}

static void run_coroutine(void (*function)(void))
{
    static ucontext_t inside;
    const size_t size = 2 * PAINTED;
    char *memory = (char *)mmap(NULL, PAGE + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, PAGE, PROT_NONE) == 0);
    stack_low = memory + PAGE;
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_size = size;
    inside.uc_stack.ss_sp = stack_low;
    inside.uc_link = &outside;
    makecontext(&inside, function, 0);
    CHECK(swapcontext(&outside, &inside) == 0);
}

static void *first_in_handler(void *ignored)
{
    raise_on_another_stack(first_handler);
    return ignored;
}

static void *in_thread(void *ignored)
{
    needs[1] = measured();
    raise_on_another_stack(handler);
    return ignored;
}

int main(int argc, char **argv)
{
    later_calls = arg_number(argc, argv, 1, 3000);
    is_told = argc > 2 && strcmp(argv[2], "told") == 0;
    is_unknown = argc > 2 && strcmp(argv[2], "unknown") == 0;
    needs[0] = measured();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, first_in_handler, NULL) == 0 && pthread_join(thread, NULL) == 0);
    run_coroutine(coroutine);
    run_coroutine(narrow_coroutine);
    say("main", needs[0], FIRST_MAX, LATER_MAX);
    say("thread", needs[1], FIRST_MAX, LATER_MAX);
    say("handler", needs[2], ELSEWHERE_MAX, ELSEWHERE_MAX);
    say("first handler", needs[3], ELSEWHERE_MAX, ELSEWHERE_MAX);
    say("coroutine", needs[4], LATER_MAX, LATER_MAX);
    say("narrow coroutine", needs[5], ELSEWHERE_MAX, ELSEWHERE_MAX);
    printf("measured\n");
    return 0;
}
