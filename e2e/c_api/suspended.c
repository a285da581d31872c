/* A thread is stopped wherever it happens to be, as a scheduler or an interrupt would do it, again and again; meanwhile another one does
   and asks everything. Nothing waits for what the stopped one may hold. Prints the longest time that a call took, in milliseconds. */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#include "check.h"
#include <heapledger.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static char pool[1 << 16], other_pool[64];
static int heap, other_heap;
static atomic_int id, is_over;
static atomic_long done;

/* Not malloc, whose locks are the C library's. */
static void *works(void *data) {
    struct heapledger_resize resize;
    long round;
    atomic_store(&id, (int)syscall(SYS_gettid));
    for (round = 0; !atomic_load(&is_over); round++) {
        char *block = pool + round % 1000 * 64;
        int label = heapledger_label(0, "round", round & 1 ? "odd" : "even");
        heapledger_label_set(label);
        heapledger_allocated(heap, block, 40, 0);
        heapledger_resizing(block, &resize);
        heapledger_resized(&resize, heap, block, 50, 0);
        heapledger_freed(block, 0);
        atomic_fetch_add(&done, 1);
    }
    return data;
}

static int swallows(void *to, const char *text, size_t bytes) {
    (void)to;
    return text != NULL && bytes > 0 ? 0 : -1;
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void everything(int trace) {
    struct heapledger_output output = {sizeof output, swallows, NULL, -1};
    struct heapledger_tasks tasks;
    struct heapledger_heap figures;
    struct heapledger_trace_sums sums;
    struct heapledger_task task;
    memset(&tasks, 0, sizeof tasks);
    tasks.size = sizeof tasks;
    tasks.tasks = &task;
    tasks.task_count = 1;
    figures.size = sizeof figures;
    sums.size = sizeof sums;
    CHECK(heapledger_allocated(other_heap, other_pool, 24, 0) == 0);
    CHECK(heapledger_all_tasks(&tasks) == 0 && heapledger_one_task((unsigned)atomic_load(&id), &tasks) == 0);
    CHECK(task.is_alive && task.id == (unsigned)atomic_load(&id));
    CHECK(heapledger_all_tasks_overview(0, &output) == 0 && heapledger_all_tasks_print(0, &output) == 0);
    CHECK(heapledger_heap_figures(heap, &figures) == 0 && heapledger_heaps_dump(0, &output) == 0);
    CHECK(heapledger_mark("while it is stopped") >= 0 || heapledger_state() == HEAPLEDGER_ON);
    CHECK(heapledger_freed(other_pool, 0) == 0);
    if (trace > 0) heapledger_trace_figures(trace, &sums);
}

/* Another process stops the thread, says so, and lets it go when it is told to. */
static void stops(int from, int to, int thread) {
    char word;
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) _exit(77);
    while (read(from, &word, 1) == 1) {
        if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, &status, __WALL) != thread) _exit(1);
        if (write(to, "s", 1) != 1 || read(from, &word, 1) != 1) _exit(1);
        if (ptrace(PTRACE_CONT, thread, NULL, NULL) != 0) _exit(1);
        if (write(to, "g", 1) != 1) _exit(1);
    }
    ptrace(PTRACE_DETACH, thread, NULL, NULL);
    _exit(0);
}

static void told(int descriptor) {
    char word;
    CHECK(read(descriptor, &word, 1) == 1);
}

int main(int arguments, char **words) {
    static size_t buffer[1 << 16];
    struct heapledger_trace_options options = {sizeof options, HEAPLEDGER_LEAKS, 4, 0, 0};
    int rounds = arguments > 1 ? atoi(words[1]) : 100, with_trace = arguments > 2, trace = 0, round, status;
    int to[2], from[2];
    long longest = 0;
    pthread_t thread;
    pid_t child;
    signal(SIGPIPE, SIG_IGN);
    CHECK(HEAPLEDGER_PRESENT() && pipe(to) == 0 && pipe(from) == 0);
    heap = heapledger_heap_begin("pool", pool, sizeof pool, 0);
    other_heap = heapledger_heap_begin("other", other_pool, sizeof other_pool, 0);
    if (with_trace) CHECK((trace = heapledger_trace_start(buffer, 1 << 16, &options)) > 0);
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
    while (atomic_load(&id) == 0) usleep(100);
    child = fork();
    if (child == 0) {
        close(to[1]);
        close(from[0]);
        /* Its parent lets it, where only parents may. */
        usleep(10000);
        stops(to[0], from[1], atomic_load(&id));
    }
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    close(to[0]);
    close(from[1]);
    for (round = 0; round < rounds; round++) {
        long before = atomic_load(&done), began;
        while (atomic_load(&done) == before) usleep(10);
        if (write(to[1], "s", 1) != 1) break;
        {
            char word;
            if (read(from[0], &word, 1) != 1) break;
        }
        began = now_ms();
        everything(trace);
        if (now_ms() - began > longest) longest = now_ms() - began;
        CHECK(write(to[1], "g", 1) == 1);
        told(from[0]);
    }
    close(to[1]);
    CHECK(waitpid(child, &status, 0) == child);
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        puts("may not be stopped");
        return 0;
    }
    CHECK(round == rounds && status == 0);
    if (trace > 0) CHECK(heapledger_trace_end(trace) == 0);
    printf("%ld\n", longest);
    return 0;
}
