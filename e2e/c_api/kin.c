/* What a program has made by the API before it forks, in the child that is recorded by itself. */
#define HEAPLEDGER_WEAK
#include <heapledger.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);                                               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static volatile int hooked; /* no compiler knows that malloc changes it */

static void count(const struct heapledger_event *event, void *data)
{
    (void)event;
    (void)data;
    hooked++;
}

static char pool[4096];

static void *volatile block;

static void child(int label, int window)
{
    hooked = 0;
    block = malloc(20);
    /* Hooks go on. Labels, windows and heaps are the parent's: nobody knows their numbers here. */
    CHECK(hooked == 1 && heapledger_label_now() == 0);
    CHECK(heapledger_label_set(label) == HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_window_pause(window) == HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_window_stop(window) == HEAPLEDGER_E_UNKNOWN);
    /* It makes its own. */
    int own = heapledger_label(0, "who", "child");
    CHECK(own > 0 && heapledger_label_set(own) == 0 && heapledger_label_now() == own);
    int opened = heapledger_window_open("the child's", HEAPLEDGER_ALL, 0);
    block = malloc(30);
    CHECK(hooked == 2 && opened > 0 && heapledger_window_stop(opened) == 0);
    CHECK(heapledger_mark("in the child") >= 0);
    CHECK(heapledger_heap_begin("the child's", pool, sizeof pool, 0) > 0);
    exit(0);
}

enum { FIRST_CALLS = 6 };

/* Whatever it calls first, before any malloc, is of its own ledger. */
static void calls_first(int which)
{
    struct heapledger_figures figures = {.size = sizeof figures};
    int number = 0;
    switch (which) {
    case 0:
        CHECK(heapledger_mark("called") >= 0);
        break;
    case 1:
        number = heapledger_window_open("the child's", HEAPLEDGER_ALL, 0);
        CHECK(number > 0);
        break;
    case 2:
        CHECK(heapledger_label(0, "who", "first") > 0);
        break;
    case 3:
        CHECK(heapledger_heap_begin("the child's", pool, sizeof pool, 0) > 0);
        break;
    case 4:
        CHECK(heapledger_state() == 2);
        break;
    default:
        CHECK(heapledger_label_now() == 0);
    }
    CHECK(heapledger_mark("called") >= 0);
    block = malloc(50);
    CHECK(which != 1 || (heapledger_window_figures(number, &figures) == 0 && figures.allocations == 1));
    exit(0);
}

static void forks(int which, int label, int window)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0 && which < FIRST_CALLS)
        calls_first(which);
    if (pid == 0)
        child(label, window);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
    int label = heapledger_label(0, "who", "parent");
    CHECK(label > 0 && heapledger_label_set(label) == 0);
    CHECK(heapledger_on_alloc(count, NULL) > 0);
    int window = heapledger_window_open("the parent's", HEAPLEDGER_ALL, 0);
    CHECK(window > 0 && heapledger_heap_begin("the parent's", pool, sizeof pool, 0) > 0);
    block = malloc(10);
    CHECK(hooked == 1);
    for (int which = 0; which <= FIRST_CALLS; which++)
        forks(which, label, window);
    block = malloc(40);
    CHECK(hooked == 2 && heapledger_label_now() == label && heapledger_window_stop(window) == 0);
    return 0;
}
