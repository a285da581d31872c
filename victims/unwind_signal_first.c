// flags: -pthread
// Handlers on an alternate stack that are the first to allocate: in a thread that never did, and on a coroutine's stack that
// nobody has seen. What they interrupted is another stack than any that is known.
//
// Marks: 5,000 a thread's first, 5,001 on a coroutine, 5,002 in another thread's handler while its coroutine runs.
#include "unwind_switch.h"

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 20, STACK = 64 * 1024 };

static __thread unsigned mark;
static void *scheduler, *coroutine;

CALL_SITE void on_signal(int signal)
{
    (void)signal;
    MARK(mark);
}
CALL_SITE void interrupted(unsigned number)
{
    mark = number;
    raise(SIGUSR1);
}
static void set_alternate(char *space)
{
    stack_t stack = {.ss_sp = space, .ss_size = STACK, .ss_flags = space == NULL ? SS_DISABLE : 0};
    CHECK(sigaltstack(&stack, NULL) == 0);
}
static char *map(void)
{
    char *got = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

CALL_SITE void coroutine_body(void *number)
{
    interrupted((unsigned)(uintptr_t)number);
    switch_stacks(&coroutine, scheduler);
}
static void run_coroutine(char *stack, unsigned number)
{
    switch_stacks(&scheduler, new_stack(stack + STACK, coroutine_body, (void *)(uintptr_t)number));
}

CALL_SITE void *first_in_thread(void *space)
{
    set_alternate(space);
    interrupted(5000);
    set_alternate(NULL);
    return NULL;
}
CALL_SITE void *coroutine_in_thread(void *spaces)
{
    set_alternate(((char **)spaces)[0]);
    run_coroutine(((char **)spaces)[1], 5002);
    set_alternate(NULL);
    return NULL;
}

int main(void)
{
    char *space = map(), *stack = map(), *spaces[2] = {map(), map()};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, first_in_thread, spaces[0]) == 0 && pthread_join(thread, NULL) == 0);
        set_alternate(space);
        // The main thread is known by now, but not on this stack.
        run_coroutine(stack, 5001);
        set_alternate(NULL);
        CHECK(pthread_create(&thread, NULL, coroutine_in_thread, spaces) == 0 && pthread_join(thread, NULL) == 0);
    }
    printf("marks %d\n", 3 * ROUNDS);
    return 0;
}
