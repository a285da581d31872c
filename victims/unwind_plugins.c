// flags: -rdynamic -pthread
// shared: unwind_layout.S libunwind_layout_a.so -DLETTER=a -DFRAME=256
// shared: unwind_layout.S libunwind_layout_b.so -DLETTER=b -DFRAME=2304
// shared: unwind_layout.S libunwind_layout_c.so -DLETTER=c -DFRAME=256
// shared: unwind_layout.S libunwind_layout_d.so -DLETTER=d -DFRAME=256 -DBY_RBP
// Four libraries take turns at one address. Their code differs in nothing but frame sizes, so every return address is the
// same: of `a` and `c` the whole stack, word for word. Only the loader knows that they are others. Another thread, which
// remembers its last stack through one of them, comes back through the next.
//
// Marks: 8,000 + 10 * library + 0 in the main thread, 1 in the other, 2 in the destructor.
#include "victim.h"
#include <dlfcn.h>

#define MARK(size) free(opaque(malloc(size)))
enum { ROUNDS = 80, LIBRARIES = 4 };

static int marks, same;
CALL_SITE void plugin_mark(size_t mark)
{
    MARK(mark);
    marks++;
}
void (*layout_mark)(size_t);

typedef void outer_fn(void (*function)(size_t), size_t mark);
static outer_fn *current;
static size_t current_mark;

// The other thread stays at one place of its stack.
static pthread_barrier_t barrier;
CALL_SITE void in_other_thread(void)
{
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (current == NULL)
            return;
        current(plugin_mark, current_mark);
        pthread_barrier_wait(&barrier);
    }
}
static void *other_thread(void *argument)
{
    in_other_thread();
    return argument;
}

CALL_SITE void in_main_thread(outer_fn *outer, size_t mark) { outer(plugin_mark, mark); }

// Through `layout_destroy`.
CALL_SITE void close_library(void *library) { CHECK(dlclose(library) == 0); }

int main(void)
{
    static const char *const files[LIBRARIES] = {"libunwind_layout_a.so", "libunwind_layout_b.so", "libunwind_layout_c.so",
                                                 "libunwind_layout_d.so"};
    static const char *const names[LIBRARIES] = {"layout_a_outer", "layout_b_outer", "layout_c_outer", "layout_d_outer"};
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    layout_mark = plugin_mark;
    uint32_t random = 747796405;
    outer_fn *last = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        size_t which = (i < 2 * LIBRARIES ? (uint32_t)i : next_random(&random)) % LIBRARIES;
        void *library = dlopen(beside(files[which]), RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        outer_fn *outer = (outer_fn *)dlsym(library, names[which]);
        CHECK(outer != NULL);
        same += outer == last;
        last = outer;
        in_main_thread(outer, 8000 + 10 * which);
        current = outer;
        current_mark = 8001 + 10 * which;
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        *(size_t *)dlsym(library, "layout_last") = 8002 + 10 * which;
        close_library(library);
    }
    current = NULL;
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    // If the addresses were others each time, nothing was tested.
    CHECK(same > ROUNDS / 2);
    printf("marks %d\n", marks);
    return 0;
}
