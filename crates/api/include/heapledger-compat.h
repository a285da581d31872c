/* heapledger-compat.h: names of ESP-IDF's heap API, for C programs on Linux that are written with them.
 *
 * What is here is there what it is called, on what heapledger.h has; docs/esp-idf.md says what is different, and what is called otherwise
 * (tasks, heaps that begin). Without heapledger (and with HEAPLEDGER_WEAK) figures are 0 and functions fail.
 * HEAPLEDGER_HOOKS: in one file, esp_heap_trace_alloc_hook and esp_heap_trace_free_hook are called if the program defines them.
 *
 * For gcc and clang. Licence: MIT OR Apache-2.0.
 */
#ifndef HEAPLEDGER_COMPAT_H
#define HEAPLEDGER_COMPAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <heapledger.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and capabilities ---- */

#ifndef ESP_OK
typedef int esp_err_t;
#define ESP_OK 0
#define ESP_FAIL (-1)
#define ESP_ERR_NO_MEM 0x101
#define ESP_ERR_INVALID_ARG 0x102
#define ESP_ERR_INVALID_STATE 0x103
#define ESP_ERR_INVALID_SIZE 0x104
#define ESP_ERR_NOT_FOUND 0x105
#define ESP_ERR_NOT_SUPPORTED 0x106
#endif

#ifndef MALLOC_CAP_DEFAULT
#define MALLOC_CAP_EXEC (1u << 0)
#define MALLOC_CAP_32BIT (1u << 1)
#define MALLOC_CAP_8BIT (1u << 2)
#define MALLOC_CAP_DMA (1u << 3)
#define MALLOC_CAP_SPIRAM (1u << 10)
#define MALLOC_CAP_INTERNAL (1u << 11)
#define MALLOC_CAP_DEFAULT (1u << 12)
#define MALLOC_CAP_IRAM_8BIT (1u << 13)
#define MALLOC_CAP_RETENTION (1u << 14)
#define MALLOC_CAP_RTCRAM (1u << 15)
#define MALLOC_CAP_TCM (1u << 16)
#define MALLOC_CAP_INVALID (1u << 31)
#endif

/* An answer of heapledger's. */
HEAPLEDGER_INLINE_ esp_err_t heapledger_compat_error_(int answer) {
    if (answer >= 0) return ESP_OK;
    switch (answer) {
    case HEAPLEDGER_E_INVALID: return ESP_ERR_INVALID_ARG;
    case HEAPLEDGER_E_TOO_SMALL: return ESP_ERR_INVALID_SIZE;
    case HEAPLEDGER_E_NOT_SO: return ESP_ERR_INVALID_STATE;
    case HEAPLEDGER_E_UNKNOWN: return ESP_ERR_NOT_FOUND;
    case HEAPLEDGER_E_NO_ROOM: return ESP_ERR_NO_MEM;
    case HEAPLEDGER_E_ABSENT:
    case HEAPLEDGER_E_UNSUPPORTED: return ESP_ERR_NOT_SUPPORTED;
    default: return ESP_FAIL;
    }
}

/* ---- Heap information, of the heaps that the program has told of ---- */

typedef struct {
    size_t total_free_bytes;
    size_t total_allocated_bytes;
    size_t largest_free_block;
    size_t minimum_free_bytes;
    size_t allocated_blocks;
    size_t free_blocks;
    size_t total_blocks;
} multi_heap_info_t;

HEAPLEDGER_INLINE_ struct heapledger_heap heapledger_compat_heaps_(uint32_t caps) {
    struct heapledger_heap heaps;
    memset(&heaps, 0, sizeof heaps);
    heaps.size = sizeof heaps;
    if (heapledger_heaps_figures(caps, &heaps) < 0) memset(&heaps, 0, sizeof heaps);
    return heaps;
}
HEAPLEDGER_INLINE_ size_t heap_caps_get_total_size(uint32_t caps) { return heapledger_compat_heaps_(caps).total_bytes; }
HEAPLEDGER_INLINE_ size_t heap_caps_get_free_size(uint32_t caps) { return heapledger_compat_heaps_(caps).free_bytes; }
HEAPLEDGER_INLINE_ size_t heap_caps_get_minimum_free_size(uint32_t caps) {
    return heapledger_compat_heaps_(caps).minimum_free_bytes;
}
HEAPLEDGER_INLINE_ size_t heap_caps_get_largest_free_block(uint32_t caps) {
    return heapledger_compat_heaps_(caps).largest_free_bytes;
}
HEAPLEDGER_INLINE_ uint32_t esp_get_free_heap_size(void) { return (uint32_t)heap_caps_get_free_size(MALLOC_CAP_DEFAULT); }
HEAPLEDGER_INLINE_ uint32_t esp_get_free_internal_heap_size(void) { return (uint32_t)heap_caps_get_free_size(MALLOC_CAP_INTERNAL); }
HEAPLEDGER_INLINE_ uint32_t esp_get_minimum_free_heap_size(void) {
    return (uint32_t)heap_caps_get_minimum_free_size(MALLOC_CAP_DEFAULT);
}
HEAPLEDGER_INLINE_ void heap_caps_get_info(multi_heap_info_t *info, uint32_t caps) {
    struct heapledger_heap heaps = heapledger_compat_heaps_(caps);
    info->total_free_bytes = heaps.free_bytes;
    info->total_allocated_bytes = heaps.used_bytes;
    info->largest_free_block = heaps.largest_free_bytes;
    info->minimum_free_bytes = heaps.minimum_free_bytes;
    info->allocated_blocks = heaps.used_blocks;
    info->free_blocks = heaps.free_blocks;
    info->total_blocks = heaps.used_blocks + heaps.free_blocks;
}
HEAPLEDGER_INLINE_ void heap_caps_print_heap_info(uint32_t caps) { heapledger_heaps_print(caps, NULL); }
HEAPLEDGER_INLINE_ void heap_caps_dump(uint32_t caps) { heapledger_heaps_dump(caps, NULL); }
HEAPLEDGER_INLINE_ void heap_caps_dump_all(void) { heapledger_heaps_dump(0, NULL); }
/* 0 if there is no block there. */
HEAPLEDGER_INLINE_ size_t heap_caps_get_containing_block_size(void *address) {
    struct heapledger_block block;
    block.size = sizeof block;
    return heapledger_block_at(address, &block) < 0 ? 0 : block.usable_bytes;
}
HEAPLEDGER_INLINE_ size_t heap_caps_get_allocated_size(void *address) {
    struct heapledger_block block;
    block.size = sizeof block;
    return heapledger_block_at(address, &block) < 0 || block.address != address ? 0 : block.usable_bytes;
}
HEAPLEDGER_INLINE_ esp_err_t heap_caps_monitor_local_minimum_free_size_start(void) {
    return heapledger_compat_error_(heapledger_minimum_watch_start());
}
HEAPLEDGER_INLINE_ esp_err_t heap_caps_monitor_local_minimum_free_size_stop(void) {
    return heapledger_minimum_watch_stop() < 0 ? ESP_FAIL : ESP_OK;
}

/* ---- What threads hold, where HEAPLEDGER_STDIO is defined ---- */

#ifdef HEAPLEDGER_STDIO
HEAPLEDGER_INLINE_ void heap_caps_print_all_task_stat(FILE *stream) {
    struct heapledger_output output = heapledger_file(stream ? stream : stdout);
    heapledger_all_tasks_print(0, &output);
}
HEAPLEDGER_INLINE_ void heap_caps_print_all_task_stat_overview(FILE *stream) {
    struct heapledger_output output = heapledger_file(stream ? stream : stdout);
    heapledger_all_tasks_overview(0, &output);
}
#endif

/* ---- Hooks, and calls that fail ---- */

typedef void (*esp_alloc_failed_hook_t)(size_t size, uint32_t caps, const char *function_name);

/* What the program has registered, and of that the hook. One of all files. */
__attribute__((weak)) esp_alloc_failed_hook_t heapledger_compat_failed_ = NULL;
__attribute__((weak)) int heapledger_compat_failing_ = 0;

static __attribute__((unused)) void heapledger_compat_refused_(const struct heapledger_event *event, void *data) {
    esp_alloc_failed_hook_t callback = heapledger_compat_failed_;
    (void)data;
    if (callback) callback(event->bytes, event->capabilities, event->function);
}
/* The last one that is registered is called. */
HEAPLEDGER_INLINE_ esp_err_t heap_caps_register_failed_alloc_callback(esp_alloc_failed_hook_t callback) {
    if (!callback) return ESP_ERR_INVALID_ARG;
    heapledger_compat_failed_ = callback;
    if (heapledger_compat_failing_ <= 0) heapledger_compat_failing_ = heapledger_on_refused(heapledger_compat_refused_, NULL);
    return heapledger_compat_error_(heapledger_compat_failing_);
}

#ifdef HEAPLEDGER_HOOKS
extern void esp_heap_trace_alloc_hook(void *ptr, size_t size, uint32_t caps) __attribute__((weak));
extern void esp_heap_trace_free_hook(void *ptr) __attribute__((weak));
static void heapledger_compat_gave_(const struct heapledger_event *event, void *data) {
    (void)data;
    if (event->what == HEAPLEDGER_EVENT_GAVE) esp_heap_trace_alloc_hook((void *)(size_t)event->block, event->bytes, event->capabilities);
}
static void heapledger_compat_takes_(const struct heapledger_event *event, void *data) {
    (void)data;
    esp_heap_trace_free_hook((void *)(size_t)event->block);
}
static void __attribute__((constructor, used)) heapledger_compat_registers_(void) {
    if (esp_heap_trace_alloc_hook) heapledger_on_alloc(heapledger_compat_gave_, NULL);
    if (esp_heap_trace_free_hook) heapledger_on_free(heapledger_compat_takes_, NULL);
}
#endif

/* ---- Heap tracing, standalone ---- */

#ifndef CONFIG_HEAP_TRACING_STACK_DEPTH
#define CONFIG_HEAP_TRACING_STACK_DEPTH 2
#endif

typedef enum { HEAP_TRACE_ALL = 0, HEAP_TRACE_LEAKS = 1 } heap_trace_mode_t;

typedef struct {
    uint32_t ccount; /* nanoseconds since the trace began, the lower half */
    void *address;
    size_t size;
    int freed;
#if CONFIG_HEAP_TRACING_STACK_DEPTH > 0
    void *alloced_by[CONFIG_HEAP_TRACING_STACK_DEPTH];
    void *freed_by[CONFIG_HEAP_TRACING_STACK_DEPTH];
#endif
    size_t kept_[9]; /* as much room as a record takes */
} heap_trace_record_t;

typedef struct {
    heap_trace_mode_t mode;
    size_t total_allocations;
    size_t total_frees;
    size_t count;
    size_t capacity;
    size_t high_water_mark;
    size_t has_overflowed;
    size_t total_hashmap_hits;
    size_t total_hashmap_miss;
} heap_trace_summary_t;

struct heapledger_compat_trace_ {
    size_t *buffer;
    size_t records;
    int trace; /* 0: none was started yet */
};

/* One of all files. */
__attribute__((weak)) struct heapledger_compat_trace_ heapledger_compat_trace_ = {NULL, 0, 0};

HEAPLEDGER_INLINE_ int heapledger_compat_state_(void) {
    struct heapledger_trace_sums sums;
    sums.size = sizeof sums;
    if (heapledger_compat_trace_.trace <= 0) return -1;
    return heapledger_trace_figures(heapledger_compat_trace_.trace, &sums) < 0 ? -1 : sums.state;
}
/* NULL and 0: the buffer is the program's again. */
HEAPLEDGER_INLINE_ esp_err_t heap_trace_init_standalone(heap_trace_record_t *record_buffer, size_t num_records) {
    if (heapledger_compat_state_() > 0) return ESP_ERR_INVALID_STATE;
    if ((record_buffer == NULL) != (num_records == 0)) return ESP_ERR_INVALID_ARG;
    if (heapledger_compat_trace_.trace > 0) heapledger_trace_end(heapledger_compat_trace_.trace);
    heapledger_compat_trace_.trace = 0;
    heapledger_compat_trace_.buffer = (size_t *)(void *)record_buffer;
    heapledger_compat_trace_.records = num_records;
    return ESP_OK;
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_start(heap_trace_mode_t mode) {
    struct heapledger_trace_options options;
    size_t words = heapledger_compat_trace_.records * (sizeof(heap_trace_record_t) / sizeof(size_t));
    if (heapledger_compat_trace_.buffer == NULL) return ESP_ERR_INVALID_STATE;
    if (heapledger_compat_trace_.trace > 0) heapledger_trace_end(heapledger_compat_trace_.trace);
    options.size = sizeof options;
    options.mode = mode == HEAP_TRACE_ALL ? HEAPLEDGER_ALL : HEAPLEDGER_LEAKS;
    options.depth = CONFIG_HEAP_TRACING_STACK_DEPTH;
    options.without = 0;
    options.of_own_thread = 0;
    /* Records of leaks are smaller: as many as were asked for, and no more. */
    if (heapledger_trace_words(heapledger_compat_trace_.records, &options) < words)
        words = heapledger_trace_words(heapledger_compat_trace_.records, &options);
    heapledger_compat_trace_.trace = heapledger_trace_start(heapledger_compat_trace_.buffer, words, &options);
    return heapledger_compat_error_(heapledger_compat_trace_.trace);
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_stop(void) {
    if (heapledger_compat_trace_.trace <= 0) return ESP_ERR_INVALID_STATE;
    return heapledger_compat_error_(heapledger_trace_stop(heapledger_compat_trace_.trace));
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_alloc_pause(void) {
    if (heapledger_compat_trace_.trace <= 0) return ESP_ERR_INVALID_STATE;
    return heapledger_compat_error_(heapledger_trace_pause(heapledger_compat_trace_.trace));
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_resume(void) {
    if (heapledger_compat_trace_.trace <= 0) return ESP_ERR_INVALID_STATE;
    return heapledger_compat_error_(heapledger_trace_resume(heapledger_compat_trace_.trace));
}
HEAPLEDGER_INLINE_ size_t heap_trace_get_count(void) {
    int count = heapledger_compat_trace_.trace > 0 ? heapledger_trace_count(heapledger_compat_trace_.trace) : 0;
    return count > 0 ? (size_t)count : 0;
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_get(size_t index, heap_trace_record_t *record) {
    struct heapledger_trace_record found;
    if (record == NULL) return ESP_ERR_INVALID_STATE;
    found.size = sizeof found;
    if (heapledger_compat_trace_.trace <= 0 || heapledger_trace_get(heapledger_compat_trace_.trace, index, &found) < 0)
        return ESP_ERR_INVALID_ARG;
    memset(record, 0, sizeof *record);
    record->ccount = (uint32_t)found.times_ns[0];
    record->address = (void *)(size_t)found.block;
    record->size = found.bytes;
    record->freed = found.freed != 0;
#if CONFIG_HEAP_TRACING_STACK_DEPTH > 0
    {
        unsigned frame;
        for (frame = 0; frame < found.depths[0] && frame < CONFIG_HEAP_TRACING_STACK_DEPTH; frame++)
            record->alloced_by[frame] = found.stacks[0][frame];
        for (frame = 0; frame < found.depths[1] && frame < CONFIG_HEAP_TRACING_STACK_DEPTH; frame++)
            record->freed_by[frame] = found.stacks[1][frame];
    }
#endif
    return ESP_OK;
}
HEAPLEDGER_INLINE_ esp_err_t heap_trace_summary(heap_trace_summary_t *summary) {
    struct heapledger_trace_sums sums;
    if (summary == NULL) return ESP_ERR_INVALID_ARG;
    memset(summary, 0, sizeof *summary);
    sums.size = sizeof sums;
    if (heapledger_compat_trace_.trace <= 0 || heapledger_trace_figures(heapledger_compat_trace_.trace, &sums) < 0) return ESP_OK;
    summary->mode = sums.mode == HEAPLEDGER_ALL ? HEAP_TRACE_ALL : HEAP_TRACE_LEAKS;
    summary->total_allocations = (size_t)sums.allocations;
    summary->total_frees = (size_t)(sums.frees + sums.unknown_frees);
    summary->count = (size_t)sums.records;
    summary->capacity = (size_t)sums.capacity;
    summary->high_water_mark = (size_t)sums.most_records;
    summary->has_overflowed = sums.lost_live != 0 || sums.lost_freed != 0;
    summary->total_hashmap_hits = (size_t)sums.frees;
    summary->total_hashmap_miss = (size_t)sums.unknown_frees;
    return ESP_OK;
}
HEAPLEDGER_INLINE_ void heap_trace_dump_caps(uint32_t caps) {
    if (heapledger_compat_trace_.trace > 0) heapledger_trace_dump(heapledger_compat_trace_.trace, caps, NULL);
}
HEAPLEDGER_INLINE_ void heap_trace_dump(void) { heap_trace_dump_caps(MALLOC_CAP_INTERNAL | MALLOC_CAP_SPIRAM); }

#ifdef __cplusplus
}
#endif

#endif
