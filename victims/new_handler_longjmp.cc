// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Leaves operator new by siglongjmp, 1,000 times: straight out of the new_handler, and out of a signal handler raised in it
// (on an alternate stack every third time). No destructor runs and no hook returns.
#include "later_blocks.h"
#include <new>
#include <setjmp.h>

static sigjmp_buf back;
static int way;

static void on_signal(int) { siglongjmp(back, 2); }
static void handler()
{
    free(opaque(malloc(30)));
    if (way == 0)
        siglongjmp(back, 1);
    raise(way == 1 ? SIGUSR1 : SIGUSR2);
}

int main()
{
    static char alt[65536];
    stack_t st = {};
    st.ss_sp = alt;
    st.ss_size = sizeof alt;
    CHECK(sigaltstack(&st, nullptr) == 0);
    struct sigaction sa = {};
    sa.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &sa, nullptr) == 0);
    sa.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR2, &sa, nullptr) == 0);
    std::set_new_handler(handler);
    size_t huge = opaque_size(PTRDIFF_MAX / 2);
    volatile int jumped = 0;
    for (volatile int i = 0; i < 1000; i = i + 1) {
        way = i % 3;
        int how = sigsetjmp(back, 1);
        if (how == 0) {
            void *p = opaque(i % 2 ? operator new(huge) : operator new[](huge));
            CHECK(p == nullptr);
            CHECK(!"came back");
        }
        jumped = jumped + 1;
        free(opaque(malloc(20)));
    }
    std::set_new_handler(nullptr);
    later_blocks();
    printf("jumped %d\n", jumped);
}
