// Storms that take turns on one and the same stack: what each has on it is copied away when it stops and back when it goes
// on, as some coroutine libraries do. The same addresses hold another stack each time.
#define STORM_LEAVE(s, depth) leave(s)
struct storm;
static void leave(struct storm *s);
#include "unwind_storm.h"
#include "unwind_switch.h"

enum { STORMS = 6, OF_EACH = 600, STACK = 192 * 1024 };

static struct copied {
    struct storm storm;
    char *copy, *here;
    size_t size;
    int over;
} copied[STORMS];
static char *shared_stack;
static void *scheduler;

__attribute__((noipa)) static void leave(struct storm *s)
{
    struct copied *c = s->own;
    if (next_random(&s->random) % 3 == 0)
        switch_stacks((void **)&c->here, scheduler);
}
CALL_SITE void copied_body(void *argument)
{
    struct copied *c = argument;
    storm(&c->storm, OF_EACH);
    c->over = 1;
    switch_stacks((void **)&c->here, scheduler);
}

int main(void)
{
    shared_stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *copies = mmap(NULL, STORMS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(shared_stack != MAP_FAILED && copies != MAP_FAILED);
    char *top = shared_stack + STACK;
    for (int i = 0; i < STORMS; i++) {
        struct copied *c = &copied[i];
        c->storm = (struct storm){.random = 134775813 * (unsigned)(i + 1), .own = c};
        c->copy = copies + i * STACK;
        c->here = new_stack(top, copied_body, c);
        c->size = top - c->here;
        memcpy(c->copy, c->here, c->size);
    }
    uint32_t random = 1103515245;
    for (int over = 0; over < STORMS;) {
        struct copied *c = &copied[next_random(&random) % STORMS];
        if (c->over)
            continue;
        memcpy(c->here, c->copy, c->size);
        switch_stacks(&scheduler, c->here);
        over += c->over;
        c->size = top - c->here;
        memcpy(c->copy, c->here, c->size);
    }
    printf("marks %d\n", STORMS * OF_EACH);
    return 0;
}
