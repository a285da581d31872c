// flags: -pthread
// Timers' signals at any instruction of a storm, on the stack that it is on and on another one; the handlers allocate, and
// raise a signal whose handler allocates on the alternate stack. Only glibc's own malloc is never entered twice.
//
// Handlers' marks: 7,000 SIGALRM, 7,001 SIGPROF, 7,002 raised by the first.
#define STORM_MARK(s, size) mark_outside_of_handlers(s, size)
// A realigned frame cannot be left out of its last two instructions: gcc's tables are wrong there.
#define STORM_KINDS_USED 7
struct storm;
#define mark_outside_of_handlers(s, size)        \
    do {                                         \
        if (next_random(&s->random) % 16 == 0) { \
            if (s->own == NULL)                  \
                break;                           \
            in_malloc = 1;                       \
            MARK(size);                          \
            in_malloc = 0;                       \
            s->own = (char *)s->own - 1;         \
        }                                        \
    } while (0)
#include <signal.h>
static volatile sig_atomic_t in_malloc, alarms, profiles, raised;
#include "unwind_storm.h"
#include <sys/time.h>

enum { OF_STORM = 1500, ALARMS = 300, PROFILES = 10 };

CALL_SITE void on_raised(int signal)
{
    (void)signal;
    in_malloc = 1;
    MARK(7002);
    in_malloc = 0;
    raised++;
}
CALL_SITE void on_alarm(int signal)
{
    (void)signal;
    if (in_malloc || alarms >= ALARMS)
        return;
    alarms++;
    in_malloc = 1;
    MARK(7000);
    in_malloc = 0;
    raise(SIGUSR1);
}
CALL_SITE void on_profile(int signal)
{
    (void)signal;
    if (in_malloc || profiles >= PROFILES)
        return;
    profiles++;
    in_malloc = 1;
    MARK(7001);
    in_malloc = 0;
}
static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | flags;
    CHECK(sigaction(signal, &action, NULL) == 0);
}

// From here outwards the stack is known; what if not, others test.
CALL_SITE void allocate_far_down(void)
{
    char room[64 * 1024];
    opaque(room);
    MARK(1);
    opaque(room);
}

int main(void)
{
    // Wide enough for three handlers.
    static char space[128 * 1024] __attribute__((aligned(64)));
    static struct storm s = {.random = 69069};
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
    CHECK(sigaltstack(&stack, NULL) == 0);
    s.own = (char *)OF_STORM;
    allocate_far_down();
    handle(SIGUSR1, on_raised, SA_ONSTACK);
    handle(SIGPROF, on_profile, SA_ONSTACK);
    handle(SIGALRM, on_alarm, 0);
    struct itimerval often = {{0, 150}, {0, 150}}, seldom = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0 && setitimer(ITIMER_PROF, &seldom, NULL) == 0);
    while (s.own != NULL || alarms < ALARMS || profiles < PROFILES) {
        handle(SIGALRM, on_alarm, alarms % 2 ? SA_ONSTACK : 0);
        s.marks = 0;
        storm(&s, 100);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && setitimer(ITIMER_PROF, &never, NULL) == 0);
    CHECK(raised == ALARMS);
    printf("marks %d\n", OF_STORM + ALARMS + PROFILES + ALARMS);
    return 0;
}
