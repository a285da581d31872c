// flags: -pthread
// Storms on 24 stacks, switched by hand at any depth, by three threads in turn: a storm goes on in another thread than the
// one where it stopped. A stack whose storm is over is unmapped, and another storm gets one at the same address.
#define STORM_LEAVE(s, depth) leave(s)
struct storm;
static void leave(struct storm *s);
#include "unwind_storm.h"
#include "unwind_switch.h"

enum { COROUTINES = 24, OF_EACH = 40, ALL = 100, STACK = 192 * 1024, THREADS = 3, IN_TURN = 20 };

static struct coroutine {
    struct storm storm;
    char *stack;
    void *here;
    int over;
} coroutines[COROUTINES];
static void *scheduler;
static uint32_t random_state = 1664525;
static int begun, over, moved, same;
static pthread_t last_thread[COROUTINES];

// The one who runs a storm is not always the one who ran it before: nothing of a thread's may be kept across this.
__attribute__((noipa)) static void leave(struct storm *s)
{
    struct coroutine *c = s->own;
    if (next_random(&s->random) % 3 == 0)
        switch_stacks(&c->here, scheduler);
}
CALL_SITE void coroutine_body(void *argument)
{
    struct coroutine *c = argument;
    storm(&c->storm, OF_EACH);
    c->over = 1;
    switch_stacks(&c->here, scheduler);
}
static void begin(struct coroutine *c)
{
    // Where the last one was, unless somebody else has taken that.
    char *got = mmap(c->stack, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED);
    same += got == c->stack;
    c->stack = got;
    c->storm = (struct storm){.random = 22695477 * (unsigned)++begun, .own = c};
    c->over = 0;
    c->here = new_stack(c->stack + STACK, coroutine_body, c);
}

// Main stacks allocate too: the stack that was looked at last may be gone by then.
CALL_SITE void between(void) { MARK(7000); }
static int betweens;

CALL_SITE void run_some(void)
{
    for (int i = 0; i < IN_TURN && over < ALL; i++) {
        int which = next_random(&random_state) % COROUTINES;
        struct coroutine *c = &coroutines[which];
        if (c->stack == NULL || c->over) {
            if (begun == ALL)
                continue;
            begin(c);
        }
        moved += last_thread[which] != 0 && !pthread_equal(last_thread[which], pthread_self());
        last_thread[which] = pthread_self();
        switch_stacks(&scheduler, c->here);
        if (c->over) {
            CHECK(munmap(c->stack, STACK) == 0);
            over++;
        }
        if (next_random(&random_state) % 4 == 0) {
            between();
            betweens++;
        }
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int turn;

CALL_SITE void *take_turns(void *argument)
{
    int own = (int)(intptr_t)argument;
    pthread_mutex_lock(&lock);
    while (over < ALL) {
        if (turn == own) {
            run_some();
            turn = (turn + 1) % THREADS;
            pthread_cond_broadcast(&passed);
        } else {
            pthread_cond_wait(&passed, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 1; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_turns, (void *)(intptr_t)i) == 0);
    take_turns(NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(moved > ALL && same > (ALL - COROUTINES) / 2);
    printf("marks %d\n", ALL * OF_EACH + betweens);
    return 0;
}
