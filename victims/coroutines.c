// flags: -pthread
// stress: 100
// expect: live fn=coroutine_leak kind=malloc count=16 bytes=816
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Eight coroutines with ARG1 switches each (default 1000), stacks from mmap and from malloc, run by the main thread and then by another
// one. A block is often freed by another coroutine than the one that allocated it.
#include "later_blocks.h"
#include <ucontext.h>

enum { COUNT = 8, STACK = 128 * 1024 };
static ucontext_t scheduler, context[COUNT];
static void *passed_on[COUNT];
static int finished;
static long switches;

CALL_SITE void *coroutine_leak(void) { return opaque(malloc(51)); }

__attribute__((noipa)) static int nested(int me, int depth)
{
    if (depth > 0)
        return nested(me, depth - 1) + 1;
    void *own = malloc(64 + me);
    CHECK(swapcontext(&context[me], &scheduler) == 0);
    free(own);
    return 0;
}
static void body(int me)
{
    coroutine_leak();
    for (long i = 0; i < switches; i++) {
        free(passed_on[(me + 3) % COUNT]);
        passed_on[(me + 3) % COUNT] = NULL;
        free(passed_on[me]);
        passed_on[me] = opaque(malloc(30 + i % 50));
        nested(me, i % 20);
    }
    finished++;
}
static void *run(void *arg)
{
    char *stack[COUNT];
    finished = 0;
    for (int i = 0; i < COUNT; i++) {
        stack[i] = i % 2 ? malloc(STACK) : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack[i] != NULL && stack[i] != MAP_FAILED);
        CHECK(getcontext(&context[i]) == 0);
        context[i].uc_stack.ss_sp = stack[i];
        context[i].uc_stack.ss_size = STACK;
        context[i].uc_link = &scheduler;
        makecontext(&context[i], (void (*)(void))body, 1, i);
    }
    for (long i = 0; i <= switches; i++)
        for (int k = 0; k < COUNT; k++)
            CHECK(swapcontext(&scheduler, &context[k]) == 0);
    CHECK(finished == COUNT);
    for (int i = 0; i < COUNT; i++) {
        free(passed_on[i]);
        passed_on[i] = NULL;
        if (i % 2)
            free(stack[i]);
        else
            munmap(stack[i], STACK);
    }
    return arg;
}

int main(int argc, char **argv)
{
    switches = arg_number(argc, argv, 1, 1000);
    run(NULL);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, run, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    later_blocks();
    printf("finished %d\n", finished);
    return 0;
}
