/* Calls everything with what cannot be, and at odd moments. It ends with 0 if nothing crashed and each answer is an error.
   Its argument: where snapshots go. */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#include <stdio.h>
#include <heapledger.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(1); } } while (0)

static int walked(const struct heapledger_block *block, void *user) {
    return block != NULL && user != NULL;
}

static int swallows(void *to, const char *text, size_t bytes) {
    return to == NULL && text != NULL && bytes > 0 ? 0 : -1;
}

/* What heaps have. Not of the C library's: a handler may have interrupted it. */
static void heaps(void) {
    struct heapledger_heap figures;
    struct heapledger_block block;
    struct heapledger_output output = {sizeof output, swallows, NULL, -1};
    figures.size = sizeof figures;
    block.size = sizeof block;
    heapledger_heaps_figures(0, &figures);
    heapledger_heap_figures(0, &figures);
    heapledger_heap_walk(HEAPLEDGER_C_HEAP, walked, NULL);
    heapledger_heaps_walk(0, walked, &block);
    heapledger_block_at(&block, &block);
    heapledger_heaps_print(0, &output);
    heapledger_heaps_dump(0, &output);
    heapledger_minimum_watch_start();
    heapledger_minimum_watch_stop();
}

static void hook(const struct heapledger_event *event, void *data) {
    (void)data;
    if (event->what != HEAPLEDGER_EVENT_TAKES_BACK) heapledger_is_live(event->block);
}

/* In a signal handler malloc may not be called. */
static __thread volatile int is_in_handler;

static int writes(void *to, const char *text, size_t bytes) {
    (void)to;
    return bytes > 0 && text != NULL ? 0 : -1;
}

/* Hooks, faults, measurements and traces, with something that could be. */
static void watching(void) {
    static size_t buffers[64][512];
    static int next;
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_ALL, 2, 0, 1};
    struct heapledger_trace_sums sums;
    struct heapledger_trace_record record;
    struct heapledger_region_sums measured;
    struct heapledger_output output = {sizeof output, writes, NULL, -1};
    int hooks[6], index = __sync_fetch_and_add(&next, 1) % 64, region, fault, trace;
    sums.size = sizeof sums;
    record.size = sizeof record;
    measured.size = sizeof measured;
    hooks[0] = heapledger_on_alloc(hook, NULL);
    hooks[1] = heapledger_on_free(hook, NULL);
    hooks[2] = heapledger_on_refused(hook, NULL);
    hooks[3] = heapledger_on_request_above(100, hook, NULL);
    hooks[4] = heapledger_on_live_above(100, 50, NULL, NULL);
    hooks[5] = heapledger_on_overflow(hook, NULL);
    region = heapledger_region_begin(index & 1);
    fault = heapledger_fail(HEAPLEDGER_RULE_EVERY, (size_t)-1, 1, NULL);
    /* The same buffer is not used twice at the same time: fewer than 64 threads and handlers are in here. */
    trace = heapledger_trace_start(buffers[index], heapledger_trace_words(4, &options), &options);
    if (!is_in_handler) free(malloc(120));
    heapledger_trace_get(trace, 0, &record);
    heapledger_trace_figures(trace, &sums);
    heapledger_trace_dump(trace, ~0u, &output);
    heapledger_trace_pause(trace);
    heapledger_trace_resume(trace);
    heapledger_trace_stop(trace);
    heapledger_trace_restart(trace);
    heapledger_trace_count(trace);
    heapledger_region_figures(region, &measured);
    CHECK(trace <= 0 || heapledger_trace_end(trace) == 0);
    heapledger_fail_calls(fault);
    heapledger_fail_failed(fault);
    CHECK(fault <= 0 || heapledger_fail_end(fault) == 0);
    CHECK(region <= 0 || heapledger_region_end(region) == 0);
    for (index = 0; index < 6; index++) {
        heapledger_hook_calls(hooks[index]);
        heapledger_hook_running(hooks[index]);
        CHECK(hooks[index] <= 0 || heapledger_hook_end(hooks[index]) == 0);
    }
}

/* What threads hold. */
static void tasks(void) {
    static const struct heapledger_task_info no_info = {sizeof no_info, {0}, {0}, NULL, 0, NULL, 0, 0, NULL, 0};
    struct heapledger_tasks tasks;
    struct heapledger_task_info info = no_info;
    struct heapledger_output output = {sizeof output, swallows, NULL, -1};
    struct heapledger_task task[2];
    memset(&tasks, 0, sizeof tasks);
    tasks.size = sizeof tasks;
    tasks.task_count = 2;
    tasks.tasks = task;
    heapledger_all_tasks(&tasks);
    tasks.task_count = 2;
    heapledger_one_task(HEAPLEDGER_THIS_TASK, &tasks);
    heapledger_one_task_print(HEAPLEDGER_THIS_TASK, &output);
    heapledger_one_task_overview(HEAPLEDGER_PRE_SCHEDULER, &output);
    heapledger_all_tasks_overview(0, &output);
    heapledger_all_tasks_print(HEAPLEDGER_ALIVE_ONLY, &output);
    heapledger_task_totals(&info);
}

/* Each once, with something that could be. */
static int each_call;
static void each(int marks) {
    void *frames[32];
    struct heapledger_figures figures;
    struct heapledger_resize resize;
    static char pool[64];
    int window, number;
    figures.size = sizeof figures;
    heapledger_version();
    heapledger_state();
    heapledger_now_ns();
    heapledger_is_live(pool);
    heapledger_label_set(heapledger_label(0, "key", "value"));
    heapledger_label_set(heapledger_label_now());
#ifndef GOES_ON
    /* Under `run` these are refused; a program that records itself is over then. */
    heapledger_start("begin=now,at-exit=remove");
    heapledger_stop();
    heapledger_discard();
#endif
    number = heapledger_stack_put(frames, heapledger_backtrace(frames, 32, 0));
    heapledger_stack_get(number, frames, 32);
    heapledger_freed(pool, 0);
    heapledger_resizing(pool, &resize);
    heapledger_resized(&resize, 0, NULL, 8, 0);
    heapledger_refused(0, 8, 0, 0);
    watching();
    /* They look at all there is, which takes longer than there is between two signals. */
    if (__sync_fetch_and_add(&each_call, 1) % 50 == 0) {
        heaps();
        tasks();
    }
    if (marks) {
        window = heapledger_window_open("w", HEAPLEDGER_ALL, 1);
        heapledger_window_figures(window, &figures);
        heapledger_window_stop(window);
        heapledger_mark("m");
        heapledger_scope_end(heapledger_scope_begin("s"));
    }
}

/* Where a snapshot goes, or NULL. */
static const char *snapshot;
/* Whether there is a ledger. */
static int is_recorded;

static void handler(int signal, siginfo_t *info, void *context) {
    static int calls;
    /* A ledger has room for some 250 windows and heaps; what comes after that is refused. */
    int call = __sync_add_and_fetch(&calls, 1), heap;
    void *frames[32];
    (void)signal;
    (void)info;
    is_in_handler = 1;
    each(call < 100);
    if (call < 100) {
        heap = heapledger_heap_begin("of a handler", NULL, 0, 0);
        CHECK(!HEAPLEDGER_PRESENT() || heap >= 0 || heap == HEAPLEDGER_E_NO_ROOM || heap == HEAPLEDGER_E_BUSY ||
              heap == HEAPLEDGER_E_OFF);
        CHECK(heap < 0 || heapledger_heap_end(heap) == 0);
    }
    if (snapshot != NULL && call % 64 == 1)
        CHECK(heapledger_snapshot(snapshot) == (!HEAPLEDGER_PRESENT() ? HEAPLEDGER_E_ABSENT : is_recorded ? 0 : HEAPLEDGER_E_OFF));
    CHECK(!HEAPLEDGER_PRESENT() || heapledger_backtrace_of(context, frames, 32, 0) > 0);
    is_in_handler = 0;
}

static void *allocates(void *unused) {
    int round;
    for (round = 0; round < 20000; round++) {
        void *block = malloc(round % 500);
        if (round % 1000 == 0) each(1);
        free(block);
    }
    return unused;
}

/* No heap, no structure, one that is too small, no function, nothing to write to. */
static void impossible_heaps(void) {
    struct heapledger_heap figures;
    struct heapledger_block block;
    struct heapledger_shape shape;
    struct heapledger_output output = {sizeof output, NULL, NULL, -1};
    memset(&figures, 0, sizeof figures);
    memset(&block, 0, sizeof block);
    memset(&shape, 0, sizeof shape);
    CHECK(heapledger_heap_figures(0, NULL) < 0 && heapledger_heaps_figures(0, NULL) < 0);
    CHECK(heapledger_heap_figures(0, &figures) < 0 && heapledger_heaps_figures(0, &figures) < 0);
    CHECK(heapledger_heap_shape(0, NULL) < 0 && heapledger_heap_shape(0, &shape) < 0);
    CHECK(heapledger_block_at(&block, NULL) < 0 && heapledger_block_at(&block, &block) < 0);
    CHECK(heapledger_heap_walk(0, NULL, NULL) < 0 && heapledger_heaps_walk(0, NULL, NULL) < 0);
    CHECK(heapledger_heap_walk(-2, walked, NULL) < 0 && heapledger_heap_walk(1 << 30, walked, NULL) < 0);
    figures.size = sizeof figures;
    block.size = sizeof block;
    shape.size = sizeof shape;
    CHECK(heapledger_heap_figures(-2, &figures) < 0 && heapledger_heap_figures(1 << 30, &figures) < 0);
    CHECK(heapledger_heap_shape(-1, &shape) < 0 && heapledger_heap_shape(0, &shape) < 0);
    CHECK(heapledger_block_at(NULL, &block) < 0 && heapledger_block_at((void *)-1, &block) < 0);
    CHECK(heapledger_heaps_print(0, &output) < 0);
    output.size = 8;
    CHECK(heapledger_heaps_print(0, &output) < 0 && heapledger_heaps_dump(0, &output) < 0);
}

/* No structure, one that is too small, arrays that are not there, that lie wrong or cannot be so long. */
static void impossible_tasks(void) {
    struct heapledger_tasks tasks;
    struct heapledger_task_info info;
    struct heapledger_task task[2];
    struct heapledger_output output = {sizeof output, NULL, NULL, -1};
    memset(&tasks, 0, sizeof tasks);
    memset(&info, 0, sizeof info);
    CHECK(heapledger_all_tasks(NULL) < 0 && heapledger_one_task(0, NULL) < 0 && heapledger_task_totals(NULL) < 0);
    CHECK(heapledger_all_tasks(&tasks) < 0 && heapledger_one_task(0, &tasks) < 0 && heapledger_task_totals(&info) < 0);
    tasks.size = sizeof tasks;
    info.size = sizeof info;
    CHECK(heapledger_one_task(0x3fffffff, &tasks) < 0 && heapledger_one_task_print(0x3fffffff, NULL) < 0);
    tasks.heap_count = 1;
    CHECK(heapledger_all_tasks(&tasks) < 0);
    tasks.heap_count = 0;
    tasks.tasks = (struct heapledger_task *)(void *)((char *)task + 1);
    tasks.task_count = 1;
    CHECK(heapledger_all_tasks(&tasks) < 0);
    tasks.tasks = task;
    tasks.task_count = (size_t)-1 / 8;
    CHECK(heapledger_all_tasks(&tasks) < 0);
    info.total_count = 1;
    CHECK(heapledger_task_totals(&info) < 0);
    info.totals_max = 1;
    CHECK(heapledger_task_totals(&info) < 0);
    CHECK(heapledger_all_tasks_print(0, &output) < 0 && heapledger_one_task_overview(0, &output) < 0);
}

static void impossible(void) {
    struct heapledger_c_heap heap_info;
    struct heapledger_figures figures;
    struct heapledger_resize resize;
    void *frames[4];
    int heap;
    memset(&figures, 0, sizeof figures);
    CHECK(heapledger_mark(NULL) < 0);
    CHECK(heapledger_mark_thread(NULL) < 0);
    CHECK(heapledger_scope_begin(NULL) < 0);
    CHECK(heapledger_scope_end(-1) < 0);
    CHECK(heapledger_scope_end(1 << 30) < 0);
    CHECK(heapledger_label(0, NULL, "x") < 0 && heapledger_label(0, "x", NULL) < 0 && heapledger_label(-5, "k", "v") < 0);
    CHECK(heapledger_label(0, "", "") < 0 && heapledger_label(0, "", "") != HEAPLEDGER_E_UNKNOWN);
    CHECK(heapledger_label_set(-1) < 0);
    CHECK(heapledger_window_open(NULL, 0, 0) < 0 && heapledger_window_open("w", 7, 0) < 0);
    CHECK(heapledger_window_pause(-1) < 0 && heapledger_window_stop(1 << 20) < 0);
    CHECK(heapledger_window_figures(0, NULL) < 0);
    CHECK(heapledger_window_figures(0, &figures) < 0);
    figures.size = 8;
    CHECK(heapledger_window_figures(0, &figures) < 0 && figures.allocations == 0);
    CHECK(heapledger_heap_info(NULL) < 0);
    memset(&heap_info, 0, sizeof heap_info);
    CHECK(heapledger_heap_info(&heap_info) < 0 && heap_info.in_use_bytes == 0);
    CHECK(heapledger_snapshot(NULL) < 0 && heapledger_snapshot("") < 0 && heapledger_snapshot("/nowhere/at/all.hl") < 0);
    CHECK(heapledger_backtrace(NULL, 4, 0) == 0 && heapledger_backtrace(frames, 0, 0) == 0);
    CHECK(heapledger_backtrace_of(NULL, frames, 4, 0) == 0);
    CHECK(heapledger_stack_put(NULL, 1) < 0 && heapledger_stack_get(-1, frames, 4) < 0);
    CHECK(heapledger_stack_get(1 << 30, frames, 4) < 0 && heapledger_stack_get(1, NULL, 4) < 0);
    frames[0] = NULL;
    CHECK(heapledger_stack_put(frames, 1) < 0);
    CHECK(heapledger_heap_begin(NULL, NULL, 0, 0) < 0 && heapledger_heap_begin("h", (void *)-8, 100, 0) < 0);
    CHECK(heapledger_heap_end(-1) < 0 && heapledger_heap_end(1 << 20) < 0);
    CHECK(heapledger_allocated(-1, frames, 1, 0) < 0 && heapledger_allocated(1000, frames, 1, 0) < 0);
    CHECK(heapledger_allocated(0, NULL, 1, 0) < 0 && heapledger_allocated(0, frames, 1, HEAPLEDGER_KIND_FREE) < 0);
    CHECK(heapledger_freed(frames, 1000) < 0 && heapledger_freed(frames, HEAPLEDGER_KIND_MALLOC) < 0);
    impossible_heaps();
    impossible_tasks();
    CHECK(heapledger_resizing(frames, NULL) < 0 && heapledger_resized(NULL, 0, frames, 1, 0) < 0);
    /* What was taken out goes back, whatever else is wrong. (Of such a size it is there also where blocks are sampled.) */
    heap = heapledger_heap_begin("pool", NULL, 0, 0);
    if (heap >= 0) {
        CHECK(heapledger_allocated(heap, frames, 1 << 30, 0) == 0 && heapledger_is_live(frames) == 1);
        CHECK(heapledger_resizing(frames, &resize) == 0);
        CHECK(heapledger_resized(&resize, heap, frames, 1, -3) < 0 && heapledger_is_live(frames) == 1);
        CHECK(heapledger_resized(&resize, heap, NULL, 1, 0) == 0 && heapledger_is_live(frames) == 1);
        CHECK(heapledger_freed(frames, 0) == 0 && heapledger_is_live(frames) == 0);
    }
#ifndef GOES_ON
    CHECK(heapledger_start(NULL) < 0 && heapledger_start("") < 0 && heapledger_start("nonsense,=,x=y") < 0);
    CHECK(heapledger_stop() < 0 && heapledger_discard() < 0);
#endif
    CHECK(heapledger_on_alloc(NULL, NULL) < 0 && heapledger_on_free(NULL, NULL) < 0 && heapledger_on_refused(NULL, NULL) < 0);
    CHECK(heapledger_on_overflow(NULL, NULL) < 0 && heapledger_on_request_above(1, NULL, NULL) < 0);
    CHECK(heapledger_hook_end(-1) < 0 && heapledger_hook_end(0) < 0 && heapledger_hook_end(1 << 30) < 0);
    CHECK(heapledger_hook_running(-1) < 0 && heapledger_hook_calls(-1) == 0);
    CHECK(heapledger_trace_start(NULL, 1, NULL) < 0 && heapledger_trace_words(1, NULL) == 0);
    CHECK(heapledger_trace_end(-1) < 0 && heapledger_trace_count(0) < 0 && heapledger_trace_stop(1 << 30) < 0);
    CHECK(heapledger_trace_pause(0) < 0 && heapledger_trace_resume(0) < 0 && heapledger_trace_restart(0) < 0);
    CHECK(heapledger_trace_get(0, 0, NULL) < 0 && heapledger_trace_figures(0, NULL) < 0);
    CHECK(heapledger_trace_dump(0, ~0u, NULL) < 0);
    CHECK(heapledger_region_figures(0, NULL) < 0 && heapledger_region_end(-1) < 0);
    CHECK(heapledger_fail(-1, 1, 0, NULL) < 0 && heapledger_fail_end(0) < 0 && heapledger_fail_calls(-1) == 0);
    CHECK(strlen(heapledger_error_text(-12345)) > 5 && strlen(heapledger_error_text(5)) > 3);
}

/* Of a program that was built with a later header: what this recorder does not know stays as it was, and no less than all is filled. */
#define LATER(type, call) do { \
        struct { struct type of; unsigned char more[64]; } later; \
        size_t index; \
        memset(&later, 0, sizeof later); \
        memset(later.more, 0xa5, sizeof later.more); \
        later.of.size = sizeof later; \
        CHECK((call) >= 0 && later.of.size == sizeof later); \
        for (index = 0; index < sizeof later.more; index++) CHECK(later.more[index] == 0xa5); \
        later.of.size = sizeof later.of - 1; \
        CHECK((call) == HEAPLEDGER_E_TOO_SMALL); \
    } while (0)

static void later_headers(void) {
    static size_t buffer[512];
    static char pool[64];
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_ALL, 2, 0, 1};
    int heap = heapledger_heap_begin("later", pool, sizeof pool, 1 << 20), window = heapledger_window_open("later", HEAPLEDGER_ALL, 0);
    int region = heapledger_region_begin(0), trace = heapledger_trace_start(buffer, 512, &options);
    CHECK(heap >= 0 && window >= 0 && region > 0 && trace > 0);
    /* Where blocks are sampled, one of this size is there. */
    CHECK(heapledger_allocated(heap, pool, (size_t)1 << 30, 0) == 0);
    LATER(heapledger_figures, heapledger_window_figures(window, &later.of));
    LATER(heapledger_c_heap, heapledger_heap_info(&later.of));
    LATER(heapledger_heap, heapledger_heap_figures(heap, &later.of));
    LATER(heapledger_heap, heapledger_heaps_figures(1 << 20, &later.of));
    LATER(heapledger_block, heapledger_block_at(pool, &later.of));
    LATER(heapledger_tasks, heapledger_all_tasks(&later.of));
    LATER(heapledger_task_info, heapledger_task_totals(&later.of));
    LATER(heapledger_hook_sums, heapledger_hook_figures(&later.of));
    LATER(heapledger_trace_sums, heapledger_trace_figures(trace, &later.of));
    LATER(heapledger_trace_record, heapledger_trace_get(trace, 0, &later.of));
    LATER(heapledger_region_sums, heapledger_region_figures(region, &later.of));
    CHECK(heapledger_freed(pool, 0) == 0 && heapledger_trace_end(trace) == 0 && heapledger_region_end(region) == 0);
    CHECK(heapledger_window_stop(window) == 0 && heapledger_heap_end(heap) == 0);
}

__attribute__((constructor)) static void early(void) { each(1); }
__attribute__((destructor)) static void late(void) { each(1); }
static void at_exit(void) { each(1); }

int main(int count, char **words) {
    static char stack[65536];
    pthread_t threads[3];
    struct sigaction action;
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    stack_t alternate;
    int index, status;
    memset(&action, 0, sizeof action);
    memset(&alternate, 0, sizeof alternate);
    snapshot = count > 1 ? words[1] : NULL;
    is_recorded = heapledger_state() != HEAPLEDGER_OFF;
    atexit(at_exit);
    impossible();
    if (is_recorded) later_headers();

    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, NULL);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (index = 0; index < 3; index++) pthread_create(&threads[index], NULL, allocates, NULL);
    for (index = 0; index < 300; index++) {
        heapledger_pause();
        usleep(100);
        heapledger_resume();
    }
    for (index = 0; index < 3; index++) pthread_join(threads[index], NULL);
    setitimer(ITIMER_REAL, &never, NULL);

    index = fork();
    if (index == 0) {
        /* A child is in nobody's ledger. */
        CHECK(heapledger_state() == HEAPLEDGER_OFF && heapledger_mark("child") < 0);
        each(1);
        _exit(0);
    }
    CHECK(waitpid(index, &status, 0) == index && status == 0);
    CHECK(is_recorded == (heapledger_state() != HEAPLEDGER_OFF));
    puts("whole");
    return 0;
}
