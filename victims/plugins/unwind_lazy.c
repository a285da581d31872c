// The shared object of unwind_lazy.c: eight functions that are chosen when they are first called, by resolvers that allocate
// inside of the dynamic linker, below whoever called first.
#include <stdlib.h>

typedef void mark_fn(size_t size);
static mark_fn *mark;
static int caller;

__attribute__((noipa)) static void lazy_nothing(void) { __asm__ volatile(""); }
__attribute__((noipa)) static void (*chosen(int number))(void)
{
    if (mark != NULL) // not so if the loader binds everything at once
        mark(5000 + 2 * number + caller);
    free(malloc(10 + number)); // the first one of all is bound inside of a binding
    return lazy_nothing;
}
#define FUNCTION(number)                                                                                    \
    __attribute__((noipa)) static void (*resolver_##number(void))(void)                                     \
    {                                                                                                       \
        void (*function)(void) = chosen(number);                                                            \
        __asm__ volatile("# " #number : "+r"(function));                                                    \
        return function;                                                                                    \
    }                                                                                                       \
    void lazy_##number(void) __attribute__((ifunc("resolver_" #number)));                                   \
    __attribute__((noipa)) void caller_0_of_##number(long a, long b, long c, long d, long e, long f, long g) \
    {                                                                                                       \
        __asm__ volatile("" : : "r"(a + b + c + d + e + f + g));                                            \
        caller = 0;                                                                                         \
        lazy_##number();                                                                                    \
        mark(5100 + 2 * number);                                                                            \
        lazy_##number();                                                                                    \
    }                                                                                                       \
    __attribute__((noipa)) void caller_1_of_##number(long a, long b, long c, long d, long e, long f, long g) \
    {                                                                                                       \
        char room[__builtin_constant_p(number) ? 40 + 8 * number : 0];                                      \
        __asm__ volatile("" : : "r"(room), "r"(a + b + c + d + e + f + g) : "memory", "rbx", "rbp");         \
        caller = 1;                                                                                         \
        lazy_##number();                                                                                    \
        mark(5100 + 2 * number + 1);                                                                        \
        lazy_##number();                                                                                    \
    }
FUNCTION(0)
FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)
FUNCTION(7)

typedef void caller_fn(long, long, long, long, long, long, long);
caller_fn *const lazy_callers[8][2] = {
    {caller_0_of_0, caller_1_of_0}, {caller_0_of_1, caller_1_of_1}, {caller_0_of_2, caller_1_of_2},
    {caller_0_of_3, caller_1_of_3}, {caller_0_of_4, caller_1_of_4}, {caller_0_of_5, caller_1_of_5},
    {caller_0_of_6, caller_1_of_6}, {caller_0_of_7, caller_1_of_7},
};

void lazy_begin(mark_fn *function) { mark = function; }

// Below dlopen and dlclose, whose inner functions are the dynamic linker's.
__attribute__((weak)) mark_fn *mark_of_program(void);
__attribute__((constructor, noipa)) static void lazy_constructor(void)
{
    mark_of_program()(5200);
    __asm__ volatile("# constructor");
}
__attribute__((destructor, noipa)) static void lazy_destructor(void)
{
    mark_of_program()(5201);
    __asm__ volatile("# destructor");
}
