/* ESP-IDF's names: with SECOND, another file of the same program. Prints "whole". */

#define HEAPLEDGER_WEAK
#ifndef SECOND
#define HEAPLEDGER_HOOKS
#define HEAPLEDGER_STDIO
#endif
#include <heapledger-compat.h>

#ifdef SECOND

size_t count_elsewhere(void);
size_t count_elsewhere(void) { return heap_trace_get_count(); }

#else

#include "check.h"
#include <string.h>

size_t count_elsewhere(void);

static volatile int gave, taken, failed;
static volatile size_t last_bytes, last_caps;
static void *volatile last;

/* What the program defines is called. (With ONLY_ONE, it has one of the two.) */
#ifndef ONLY_ONE
void esp_heap_trace_alloc_hook(void *block, size_t bytes, uint32_t caps) {
    gave = gave + 1;
    last = block;
    last_bytes = bytes;
    last_caps = caps;
}
#endif
/* Our own names as well. */
static volatile int ours;
#ifdef ONLY_ONE
static volatile int gave_ours;
void heapledger_alloc_hook(const struct heapledger_event *event) {
    if (event->what == HEAPLEDGER_EVENT_GAVE) gave_ours = gave_ours + 1;
    last = (void *)(size_t)event->block;
    last_bytes = event->bytes;
}
#endif
void heapledger_free_hook(const struct heapledger_event *event) { ours = ours + (event->what == HEAPLEDGER_EVENT_TAKES_BACK); }

void esp_heap_trace_free_hook(void *block) {
    taken = taken + 1;
    last = block;
}

static void refused(size_t bytes, uint32_t caps, const char *function) {
    failed = failed + 1;
    last_bytes = bytes;
    last_caps = caps;
    CHECK(strcmp(function, "malloc") == 0 || strcmp(function, "calloc") == 0);
}

static heap_trace_record_t records[8];

static void tracing(void) {
    heap_trace_record_t record;
    heap_trace_summary_t summary;
    void *one, *two, *three, *unknown = kept(malloc(5));
    /* Before anything. */
    EQUAL(heap_trace_start(HEAP_TRACE_ALL), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_stop(), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_resume(), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_alloc_pause(), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_get_count(), 0);
    EQUAL(heap_trace_get(0, &record), ESP_ERR_INVALID_ARG);
    EQUAL(heap_trace_get(0, NULL), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_summary(NULL), ESP_ERR_INVALID_ARG);
    EQUAL(heap_trace_init_standalone(NULL, 3), ESP_ERR_INVALID_ARG);
    EQUAL(heap_trace_init_standalone(records, 0), ESP_ERR_INVALID_ARG);

    /* Leaks. */
    EQUAL(heap_trace_init_standalone(records, 8), ESP_OK);
    EQUAL(heap_trace_start(HEAP_TRACE_LEAKS), ESP_OK);
    EQUAL(heap_trace_init_standalone(records, 8), ESP_ERR_INVALID_STATE);
    one = kept(malloc(64));
    two = kept(malloc(96));
    EQUAL(heap_trace_get_count(), 2);
    EQUAL(count_elsewhere(), 2);
    EQUAL(heap_trace_get(0, &record), ESP_OK);
    CHECK(record.address == one && record.size == 64 && !record.freed && record.alloced_by[0] != NULL);
    free(one);
    EQUAL(heap_trace_get(0, &record), ESP_OK);
    CHECK(record.address == two);
    EQUAL(heap_trace_get(1, &record), ESP_ERR_INVALID_ARG);
    free(two);
    EQUAL(heap_trace_get_count(), 0);
    EQUAL(heap_trace_alloc_pause(), ESP_OK);
    EQUAL(heap_trace_alloc_pause(), ESP_ERR_INVALID_STATE);
    free(kept(malloc(7)));
    EQUAL(heap_trace_get_count(), 0);
    EQUAL(heap_trace_resume(), ESP_OK);
    EQUAL(heap_trace_resume(), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_stop(), ESP_OK);
    EQUAL(heap_trace_stop(), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_resume(), ESP_OK);
    EQUAL(heap_trace_stop(), ESP_OK);

    /* Four in three places: one of the last, one that had to go, and one that was never there are freed: one hit, two misses. */
    EQUAL(heap_trace_init_standalone(records, 3), ESP_OK);
    EQUAL(heap_trace_start(HEAP_TRACE_LEAKS), ESP_OK);
    one = kept(malloc(1));
    two = kept(malloc(2));
    three = kept(malloc(3));
    last = kept(malloc(4));
    {
        void *fourth = last;
        free(fourth);
    }
    free(one);
    free(unknown);
    EQUAL(heap_trace_summary(&summary), ESP_OK);
    EQUAL(summary.mode, HEAP_TRACE_LEAKS);
    EQUAL(summary.total_allocations, 4);
    EQUAL(summary.total_frees, 3);
    EQUAL(summary.count, 2);
    EQUAL(summary.capacity, 3);
    EQUAL(summary.high_water_mark, 3);
    EQUAL(summary.total_hashmap_hits, 1);
    EQUAL(summary.total_hashmap_miss, 2);
    CHECK(summary.has_overflowed);
    free(two);
    free(three);
    EQUAL(heap_trace_stop(), ESP_OK);

    /* All: what was freed stays, with its stack; one address that was used again has two records. */
    EQUAL(heap_trace_init_standalone(records, 8), ESP_OK);
    EQUAL(heap_trace_start(HEAP_TRACE_ALL), ESP_OK);
    free(kept(malloc(10)));
    free(kept(malloc(16)));
    one = kept(malloc(20));
    EQUAL(heap_trace_get_count(), 3);
    EQUAL(heap_trace_get(1, &record), ESP_OK);
    CHECK(record.freed && record.size == 16 && record.freed_by[0] != NULL);
    EQUAL(heap_trace_start(HEAP_TRACE_ALL), ESP_OK); /* anew */
    EQUAL(heap_trace_summary(&summary), ESP_OK);
    EQUAL(summary.count, 0);
    EQUAL(summary.high_water_mark, 0);
    free(one);
    EQUAL(heap_trace_stop(), ESP_OK);
    heap_trace_dump();
    heap_trace_dump_caps(0);
    EQUAL(heap_trace_init_standalone(NULL, 0), ESP_OK);
    EQUAL(heap_trace_start(HEAP_TRACE_ALL), ESP_ERR_INVALID_STATE);
    EQUAL(heap_trace_get_count(), 0);
}

static void information(void) {
    static char region[4096];
    multi_heap_info_t info;
    int heap = heapledger_heap_begin("region", region, sizeof region, MALLOC_CAP_8BIT | MALLOC_CAP_INTERNAL);
    CHECK(heap > 0);
    EQUAL(heap_caps_get_total_size(MALLOC_CAP_8BIT), 4096);
    EQUAL(heap_caps_get_free_size(MALLOC_CAP_8BIT), 4096);
    EQUAL(heap_caps_get_free_size(MALLOC_CAP_8BIT | MALLOC_CAP_SPIRAM), 0);
    EQUAL(heapledger_allocated(heap, region + 128, 1000, 0), 0);
#ifndef ONLY_ONE
    EQUAL(last_caps, MALLOC_CAP_8BIT | MALLOC_CAP_INTERNAL);
#endif
    EQUAL(heap_caps_get_free_size(MALLOC_CAP_INTERNAL), 3096);
    EQUAL(heap_caps_get_largest_free_block(MALLOC_CAP_INTERNAL), 4096 - 1128);
    EQUAL(heap_caps_get_containing_block_size(region + 500), 1000);
    EQUAL(heap_caps_get_allocated_size(region + 128), 1000);
    EQUAL(heap_caps_get_allocated_size(region + 129), 0);
    EQUAL(heap_caps_monitor_local_minimum_free_size_start(), ESP_OK);
    EQUAL(heap_caps_monitor_local_minimum_free_size_start(), ESP_OK);
    EQUAL(heapledger_freed(region + 128, 0), 0);
    EQUAL(heap_caps_get_minimum_free_size(MALLOC_CAP_INTERNAL), 3096);
    EQUAL(heap_caps_monitor_local_minimum_free_size_stop(), ESP_OK);
    EQUAL(heap_caps_monitor_local_minimum_free_size_stop(), ESP_FAIL);
    heap_caps_get_info(&info, MALLOC_CAP_INTERNAL);
    CHECK(info.total_free_bytes == 4096 && info.total_allocated_bytes == 0 && info.allocated_blocks == 0 && info.total_blocks == 1);
    EQUAL(esp_get_free_internal_heap_size(), 4096);
    EQUAL(esp_get_free_heap_size() + esp_get_minimum_free_heap_size(), 0);
    heap_caps_print_heap_info(MALLOC_CAP_INTERNAL);
    fflush(stdout);
    heap_caps_print_all_task_stat(NULL);
    heap_caps_print_all_task_stat_overview(stdout);
    fflush(stdout);
    heap_caps_dump(MALLOC_CAP_INTERNAL);
    heapledger_heap_end(heap);
}

int main(void) {
    static volatile size_t too_many = (size_t)-1 - 4096;
    void *block;
    if (!HEAPLEDGER_PRESENT()) {
        EQUAL(heap_trace_init_standalone(records, 8), ESP_OK);
        EQUAL(heap_trace_start(HEAP_TRACE_ALL), ESP_ERR_NOT_SUPPORTED);
        EQUAL(heap_caps_register_failed_alloc_callback(refused), ESP_ERR_NOT_SUPPORTED);
        EQUAL(heap_caps_get_total_size(0), 0);
        puts("absent");
        return 0;
    }
    gave = taken = ours = 0;
    block = kept(malloc(1234));
    block = kept(realloc(block, 1234));
    free(block);
#ifndef ONLY_ONE
    EQUAL(gave, 2);
    EQUAL(last_bytes, 1234);
    EQUAL(last_caps, MALLOC_CAP_DEFAULT);
#endif
#ifdef ONLY_ONE
    EQUAL(gave_ours, 2);
    EQUAL(last_bytes, 1234);
#endif
    EQUAL(taken, 2);
    EQUAL(ours, 2);
    CHECK(last == block);

    EQUAL(heap_caps_register_failed_alloc_callback(NULL), ESP_ERR_INVALID_ARG);
    EQUAL(heap_caps_register_failed_alloc_callback(refused), ESP_OK);
    EQUAL(heap_caps_register_failed_alloc_callback(refused), ESP_OK);
    CHECK(kept(malloc(too_many)) == NULL);
    EQUAL(failed, 1);
    EQUAL(last_bytes, too_many);
    EQUAL(last_caps, MALLOC_CAP_DEFAULT);
    CHECK(kept(calloc(too_many, 2)) == NULL);
    EQUAL(failed, 2);
    EQUAL(last_bytes, (size_t)-1);
    free(NULL);
    EQUAL(failed, 2);
    tracing();
    information();
    puts("whole");
    return 0;
}

#endif
