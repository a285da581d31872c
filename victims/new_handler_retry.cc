// expect: live fn=allocate_after_retry kind=new count=5
// expect: live fn=allocate_after_retry kind=malloc count=0
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// A new_handler that makes room (by raising the limit of the address space), so that operator new's second attempt works: one
// allocation named new, although malloc was called twice inside it.
#include "later_blocks.h"
#include <new>
#include <sys/resource.h>

static int called;
static rlim_t old_limit;

static void handler()
{
    struct rlimit lim;
    CHECK(getrlimit(RLIMIT_AS, &lim) == 0);
    lim.rlim_cur = old_limit;
    CHECK(setrlimit(RLIMIT_AS, &lim) == 0);
    free(opaque(malloc(99)));
    // Operators inside the operator: afterwards it still is the outer one that counts.
    delete[] (char *)opaque(new char[101]);
    called++;
}

CALL_SITE void *allocate_after_retry(size_t n) { return opaque(operator new(n)); }

int main()
{
    std::set_new_handler(handler);
    struct rlimit lim;
    CHECK(getrlimit(RLIMIT_AS, &lim) == 0);
    old_limit = lim.rlim_cur;
    for (int i = 0; i < 5; i++) {
        lim.rlim_cur = 1 << 20; // less than what is mapped: no new mapping succeeds
        CHECK(setrlimit(RLIMIT_AS, &lim) == 0);
        char *p = (char *)allocate_after_retry((64 << 20) + i);
        CHECK(p != nullptr);
        p[0] = 1;
        CHECK(called == i + 1);
    }
    later_blocks();
    printf("retried %d\n", called);
}
