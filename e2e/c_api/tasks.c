/* What threads hold, by the ledger. Its first argument says which test, its second that accounts are kept; it ends with 0 if all is as it
   should be. */

#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#define HEAPLEDGER_STDIO
#define HEAPLEDGER_STDLIB
#include "arena.h"
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(1); } } while (0)
enum { RANGE = 1 << 16, FAST = 1, DMA = 2 };

static char range[RANGE] __attribute__((aligned(4096)));
static struct arena arena;
static int accounts;

/* A thread that does what it is told, and nothing else. */
struct worker {
    pthread_t thread;
    sem_t told, done;
    void (*work)(struct worker *);
    void *volatile block;
    size_t bytes;
    unsigned id;
};

static void *works(void *of) {
    struct worker *worker = of;
    worker->id = (unsigned)syscall(SYS_gettid);
    sem_post(&worker->done);
    for (;;) {
        sem_wait(&worker->told);
        if (!worker->work) return NULL;
        worker->work(worker);
        sem_post(&worker->done);
    }
}

static void begins(struct worker *worker, const pthread_attr_t *how) {
    memset(worker, 0, sizeof *worker);
    sem_init(&worker->told, 0, 0);
    sem_init(&worker->done, 0, 0);
    CHECK(pthread_create(&worker->thread, how, works, worker) == 0);
    sem_wait(&worker->done);
}

static void does(struct worker *worker, void (*work)(struct worker *)) {
    worker->work = work;
    sem_post(&worker->told);
    sem_wait(&worker->done);
}

static void ends(struct worker *worker) {
    worker->work = NULL;
    sem_post(&worker->told);
    CHECK(pthread_join(worker->thread, NULL) == 0);
    /* That comes back a moment before the kernel has forgotten it. */
    while (syscall(SYS_tgkill, getpid(), worker->id, 0) == 0) usleep(100);
}

static void allocates(struct worker *worker) { worker->block = malloc(worker->bytes); }
static void resizes(struct worker *worker) { worker->block = realloc(worker->block, worker->bytes); }
static void frees(struct worker *worker) { free(worker->block); }
static void takes_fast(struct worker *worker) { worker->block = arena_alloc(&arena, worker->bytes); }
static void gives_fast(struct worker *worker) { arena_free(&arena, worker->block); }

static struct heapledger_tasks all(unsigned options) {
    struct heapledger_tasks tasks;
    size_t index, heap, bytes;
    CHECK(heapledger_all_tasks_alloc(&tasks, options) == 0);
    for (index = 0; index < tasks.task_count; index++) {
        const struct heapledger_task *task = &tasks.tasks[index];
        CHECK((task->heaps == NULL) == (task->heap_count == 0));
        for (bytes = heap = 0; heap < task->heap_count; heap++) {
            bytes += task->heaps[heap].current_bytes;
            CHECK(!(task->heaps[heap].known & HEAPLEDGER_TASK_KNOWS_PEAK) || task->heaps[heap].peak_bytes >= task->heaps[heap].current_bytes);
        }
        CHECK(bytes == task->current_bytes && bytes < (size_t)1 << 40);
        CHECK(!task->known || task->peak_bytes >= task->current_bytes);
        CHECK(!accounts || task->heap_count == 0 || task->known);
    }
    return tasks;
}

static struct heapledger_tasks one(unsigned id) {
    struct heapledger_tasks tasks;
    CHECK(heapledger_one_task_alloc(id, &tasks) == 0 && tasks.task_count == 1);
    return tasks;
}

/* In an array on the stack: it changes nothing. */
static size_t current(unsigned id) {
    struct heapledger_tasks tasks;
    struct heapledger_task task;
    memset(&tasks, 0, sizeof tasks);
    task.current_bytes = 0;
    tasks.size = sizeof tasks;
    tasks.tasks = &task;
    tasks.task_count = 1;
    CHECK(heapledger_one_task(id, &tasks) == 0);
    /* If all blocks have a thread, there is no such task. */
    CHECK(tasks.task_count == 1 || (id == HEAPLEDGER_PRE_SCHEDULER && tasks.task_count == 0));
    return task.current_bytes;
}

/* E1, E2, and a thread on a stack of the program's own (E8). */
static void listed_while_alive_and_after(void) {
    static char stack[1 << 18] __attribute__((aligned(4096)));
    pthread_attr_t own_stack;
    struct worker worker;
    struct heapledger_tasks before = all(0), now;
    size_t index;
    int round;
    pthread_attr_init(&own_stack);
    CHECK(pthread_attr_setstack(&own_stack, stack, sizeof stack) == 0);
    for (round = 0; round < 2; round++) {
        begins(&worker, round ? &own_stack : NULL);
        pthread_setname_np(worker.thread, round ? "static" : "worker");
        worker.bytes = 36;
        does(&worker, allocates);
        now = all(0);
        CHECK(now.tasks_there > before.tasks_there && now.heaps_there > before.heaps_there);
        CHECK(now.allocations_there > before.allocations_there);
        for (index = 0; index < now.task_count && now.tasks[index].id != worker.id; index++) {}
        CHECK(index < now.task_count && now.tasks[index].is_alive && now.tasks[index].current_bytes == 36);
        CHECK(now.tasks[index].handle == (void *)worker.thread);
        CHECK(!strcmp(now.tasks[index].name, round ? "static" : "worker"));
        heapledger_tasks_free(&now);
        does(&worker, frees);
        ends(&worker);
        now = all(0);
        for (index = 0; index < now.task_count && now.tasks[index].id != worker.id; index++) {}
        CHECK(index < now.task_count && !now.tasks[index].is_alive && now.tasks[index].current_bytes == 0);
        heapledger_tasks_free(&now);
        now = all(HEAPLEDGER_ALIVE_ONLY);
        for (index = 0; index < now.task_count; index++) CHECK(now.tasks[index].id != worker.id);
        heapledger_tasks_free(&now);
    }
    heapledger_tasks_free(&before);
}

/* E3, E5. */
static void one_at_a_time(void) {
    struct worker worker;
    struct heapledger_tasks tasks;
    struct heapledger_task task;
    void *volatile own;
    begins(&worker, NULL);
    tasks = one(worker.id);
    CHECK(tasks.heap_count == 0 && tasks.heaps == NULL && tasks.allocation_count == 0 && tasks.allocations == NULL);
    heapledger_tasks_free(&tasks);
    worker.bytes = 100;
    does(&worker, takes_fast);
    tasks = one(worker.id);
    CHECK(tasks.heap_count == 1 && tasks.allocation_count == 1 && tasks.tasks->heap_count == 1);
    CHECK(tasks.heaps->capabilities == FAST && tasks.heaps->heap_bytes == RANGE && !strcmp(tasks.heaps->name, "fast"));
    CHECK(tasks.heaps->heap == arena.heap && tasks.heaps->known & HEAPLEDGER_TASK_KNOWS_SIZE);
    CHECK(tasks.heaps->allocations == tasks.allocations && tasks.allocations->address == worker.block);
    CHECK(tasks.allocations->bytes == 100 && tasks.heaps->current_bytes == 100);
    heapledger_tasks_free(&tasks);
    does(&worker, gives_fast);
    /* Without accounts, nobody knows any more that there was something. */
    tasks = one(worker.id);
    CHECK(tasks.tasks->heap_count == (accounts ? 1u : 0u) && tasks.allocation_count == 0 && tasks.tasks->current_bytes == 0);
    CHECK(!accounts || (tasks.heaps->allocations == NULL && tasks.heaps->peak_bytes == 100));
    heapledger_tasks_free(&tasks);
    ends(&worker);

    own = malloc(10);
    memset(&tasks, 0, sizeof tasks);
    CHECK(heapledger_all_tasks(&tasks) == HEAPLEDGER_E_TOO_SMALL && heapledger_all_tasks(NULL) == HEAPLEDGER_E_INVALID);
    tasks.size = sizeof tasks;
    CHECK(heapledger_one_task(0x3fffffff, &tasks) == HEAPLEDGER_E_UNKNOWN);
    tasks.task_count = 1;
    CHECK(heapledger_all_tasks(&tasks) == HEAPLEDGER_E_INVALID);
    tasks.tasks = &task;
    CHECK(heapledger_all_tasks(&tasks) == 0 && tasks.task_count == 1 && tasks.tasks_there >= 3);
    CHECK(task.id == (unsigned)getpid() && task.heaps == NULL && task.heap_count > 0);
    CHECK(heapledger_one_task(HEAPLEDGER_THIS_TASK, &tasks) == 0 && task.id == (unsigned)getpid());
    free(own);
}

/* E4: threads come and go, their blocks stay, and are resized and freed by others. */
static void left_behind(void) {
    static void *left[200];
    struct worker worker;
    size_t index, other;
    for (index = 0; index < 200; index++) {
        begins(&worker, NULL);
        worker.bytes = 50;
        does(&worker, allocates);
        left[index] = worker.block;
        if (index % 3 == 2) {
            other = index * 7 % index;
            worker.block = left[other];
            worker.bytes = 5000;
            does(&worker, resizes);
            left[other] = worker.block;
        }
        CHECK(current(worker.id) >= 50);
        ends(&worker);
        if (index % 50 == 0) {
            struct heapledger_tasks tasks = all(0);
            heapledger_tasks_free(&tasks);
        }
    }
    for (index = 0; index < 200; index++) free(left[index]);
    {
        struct heapledger_tasks tasks = all(0);
        for (index = 0; index < tasks.task_count; index++) CHECK(tasks.tasks[index].is_alive || tasks.tasks[index].current_bytes == 0);
        heapledger_tasks_free(&tasks);
    }
}

/* E6. */
static void whose_block_it_is(void) {
    struct worker a, b;
    begins(&a, NULL);
    begins(&b, NULL);
    a.bytes = 70;
    does(&a, allocates);
    CHECK(current(a.id) == 70 && current(b.id) == 0);
    b.block = a.block;
    b.bytes = 90;
    does(&b, resizes);
    CHECK(current(a.id) == 0 && current(b.id) == 90);
    a.block = b.block;
    does(&a, frees);
    CHECK(current(a.id) == 0 && current(b.id) == 0);
    ends(&a);
    ends(&b);
}

/* E10. */
static void totals(void) {
    struct worker a, b;
    struct heapledger_task_info info, none;
    struct heapledger_task_total all_totals[64];
    struct heapledger_task_block blocks[8];
    unsigned wanted[1], index;
    size_t count;
    void *volatile own = malloc(10);
    memset(&none, 0, sizeof none);
    none.size = sizeof none;
    begins(&a, NULL);
    begins(&b, NULL);
    a.bytes = 300;
    b.bytes = 40;
    does(&a, takes_fast);
    does(&b, allocates);

    /* Of the program's heaps the first class is those with FAST, the third all others; the second comes too late for it. */
    info = none;
    info.capabilities[0] = info.masks[0] = FAST;
    info.capabilities[1] = info.masks[1] = FAST;
    info.masks[3] = info.capabilities[3] = DMA;
    info.totals = all_totals;
    info.totals_max = 64;
    memset(all_totals, 0xff, sizeof all_totals);
    all_totals[0].task = 4242;
    all_totals[1].task = b.id;
    info.total_count = 2;
    wanted[0] = a.id;
    info.tasks = wanted;
    info.task_count = 1;
    info.blocks = blocks;
    info.blocks_max = 8;
    CHECK(heapledger_task_totals(&info) == 1 && info.total_count >= 4);
    CHECK(all_totals[0].task == 4242 && all_totals[0].bytes[2] == 0 && all_totals[0].count[0] == 0);
    CHECK(all_totals[1].task == b.id && all_totals[1].bytes[2] == 40 && all_totals[1].count[2] == 1 && all_totals[1].bytes[0] == 0);
    for (index = 0; index < info.total_count && all_totals[index].task != a.id; index++) {}
    CHECK(index < info.total_count && all_totals[index].bytes[0] == 300 && all_totals[index].count[0] == 1);
    CHECK(all_totals[index].bytes[1] == 0 && all_totals[index].bytes[2] == 0 && all_totals[index].bytes[3] == 0);
    CHECK(blocks[0].task == a.id && blocks[0].address == a.block && blocks[0].bytes == 300);

    /* There is no room for more tasks, nor for more blocks. */
    count = info.total_count;
    info.totals_max = info.total_count = 1;
    info.tasks = NULL;
    info.blocks_max = 1;
    CHECK(heapledger_task_totals(&info) == 1 && info.total_count == 1 && all_totals[0].task == 4242);
    /* All zeros: every heap is of the first class. Null for totals, then for blocks. */
    info = none;
    info.blocks = blocks;
    info.blocks_max = 2;
    CHECK(heapledger_task_totals(&info) == 2 && info.total_count == 0);
    info = none;
    info.totals = all_totals;
    info.totals_max = 64;
    CHECK(heapledger_task_totals(&info) == 0 && info.total_count == count - 1);
    for (index = 0; index < info.total_count; index++) CHECK(all_totals[index].bytes[1] == 0 && all_totals[index].bytes[0] > 0);
    /* A heap that is of no class is left out. */
    for (index = 0; index < 4; index++) none.capabilities[index] = none.masks[index] = 1u << 30;
    info = none;
    info.totals = all_totals;
    info.totals_max = 64;
    CHECK(heapledger_task_totals(&info) == 0 && info.total_count == 0);
    info.blocks_max = 5;
    CHECK(heapledger_task_totals(&info) == HEAPLEDGER_E_INVALID && heapledger_task_totals(NULL) == HEAPLEDGER_E_INVALID);
    info.size--;
    CHECK(heapledger_task_totals(&info) == HEAPLEDGER_E_TOO_SMALL);
    does(&a, gives_fast);
    does(&b, frees);
    free(own);
    ends(&a);
    ends(&b);
}

static void *hammers(void *unused) {
    void *blocks[8] = {0};
    int step;
    for (step = 0; step < 20000; step++) {
        free(blocks[step & 7]);
        blocks[step & 7] = malloc((size_t)(step % 100 + 1));
    }
    for (step = 0; step < 8; step++) free(blocks[step]);
    return unused;
}

/* Others allocate meanwhile: nothing is wrapped, and what is told is there. */
static void while_others_work(void) {
    pthread_t threads[2];
    struct heapledger_tasks tasks;
    int index, round;
    size_t task, heap, block;
    for (index = 0; index < 2; index++) pthread_create(&threads[index], NULL, hammers, NULL);
    for (round = 0; round < 50; round++) {
        tasks = all(HEAPLEDGER_ALIVE_ONLY);
        for (task = 0; task < tasks.task_count; task++) {
            for (heap = 0; heap < tasks.tasks[task].heap_count; heap++) {
                const struct heapledger_task_heap *of = &tasks.tasks[task].heaps[heap];
                for (block = 0; of->allocations && block < of->allocation_count; block++) {
                    CHECK(of->allocations[block].address != NULL);
                    CHECK(block == 0 || of->allocations[block].number > of->allocations[block - 1].number);
                }
            }
        }
        heapledger_tasks_free(&tasks);
    }
    for (index = 0; index < 2; index++) pthread_join(threads[index], NULL);
}

/* E9: of a thread that holds what is known; where its blocks lie first. */
static void printed(void) {
    struct heapledger_output output = heapledger_file(stdout);
    struct worker worker;
    void *first;
    begins(&worker, NULL);
    pthread_setname_np(worker.thread, "fifteen letters");
    worker.bytes = 7000;
    does(&worker, takes_fast);
    does(&worker, gives_fast);
    worker.bytes = 88;
    does(&worker, takes_fast);
    first = worker.block;
    worker.bytes = 5000;
    does(&worker, takes_fast);
    printf("%lx %lx\n", (unsigned long)(uintptr_t)first, (unsigned long)(uintptr_t)worker.block);
    CHECK(heapledger_one_task_print(worker.id, &output) == 0);
    CHECK(heapledger_one_task_overview(worker.id, &output) == 0);
    ends(&worker);
    CHECK(heapledger_one_task_overview(worker.id, &output) == 0);
    puts("all");
    CHECK(heapledger_all_tasks_print(0, &output) == 0);
    CHECK(heapledger_one_task_print(0x3fffffff, &output) == HEAPLEDGER_E_UNKNOWN);
}

/* E7: blocks whose thread nobody knows, freed by one. */
static void threadless(void) {
    struct worker worker;
    size_t before;
    void *volatile block;
    /* The C library has something of a thread as long as it likes. */
    begins(&worker, NULL);
    before = current(HEAPLEDGER_PRE_SCHEDULER);
    block = malloc(1 << 20);
    CHECK(current(HEAPLEDGER_PRE_SCHEDULER) == before + (1 << 20));
    worker.block = block;
    does(&worker, frees);
    CHECK(current(HEAPLEDGER_PRE_SCHEDULER) == before);
    ends(&worker);
}

int main(int count, char **words) {
    const char *which = count > 1 ? words[1] : "";
    struct heapledger_tasks tasks;
    accounts = count > 2;
    if (!HEAPLEDGER_PRESENT()) {
        CHECK(heapledger_all_tasks_alloc(&tasks, 0) == HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    CHECK(arena_begin(&arena, "fast", range, RANGE, FAST) >= 0);
    if (!strcmp(which, "printed")) {
        printed();
    } else if (!strcmp(which, "threadless")) {
        threadless();
        puts("threadless");
    } else {
        listed_while_alive_and_after();
        one_at_a_time();
        left_behind();
        whose_block_it_is();
        totals();
        while_others_work();
        puts("all is as it should be");
    }
    return 0;
}
