/* Calls each function once, and says what it answered: alone and under `heapledger run`. Its argument: where a snapshot goes. */

#define HEAPLEDGER_WEAK
#include <heapledger.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char pool[4096];
static void *volatile kept;

__attribute__((noinline)) static void labelled(void) {
    int before = heapledger_label_set(heapledger_label(0, "route", "/x"));
    kept = malloc(7777);
    printf("label_now %d\n", heapledger_label_now() > 0);
    heapledger_label_set(before);
}

__attribute__((noinline)) static size_t stack(void **frames, size_t room, size_t without) {
    return heapledger_backtrace(frames, room, without);
}

int main(int count, char **words) {
    void *frames[64] = {0}, *less[64] = {0}, *again[64] = {0};
    struct heapledger_figures figures;
    struct heapledger_c_heap heap_info;
    struct heapledger_resize kept_of;
    size_t all, fewer;
    int window, heap, scope, number;
    memset(&figures, 0, sizeof figures);
    memset(&heap_info, 0, sizeof heap_info);

    printf("present %d\n", HEAPLEDGER_PRESENT());
    printf("version %d %u\n", strlen(heapledger_version()) > 0, heapledger_api_version());
    printf("state %d\n", heapledger_state());
    printf("mark %d\n", heapledger_mark("begun"));
    printf("mark_thread %d\n", heapledger_mark_thread("mine"));
    scope = heapledger_scope_begin("part");
    printf("scope %d\n", scope >= 0);
    window = heapledger_window_open("window", HEAPLEDGER_LEAKS, 0);
    printf("window %d\n", window >= 0);
    labelled();
    figures.size = sizeof figures;
    number = heapledger_window_figures(window, &figures);
    printf("figures %d %d %d\n", number, figures.allocations > 0, figures.live_bytes >= 7777);
    printf("window_pause %d\n", heapledger_window_pause(window));
    printf("window_resume %d\n", heapledger_window_resume(window));
    printf("window_stop %d\n", heapledger_window_stop(window));
    printf("window_again %d\n", heapledger_window_stop(window));
    printf("scope_end %d\n", heapledger_scope_end(scope));
    printf("is_live %d %d\n", heapledger_is_live(kept), heapledger_is_live(&count));

    all = stack(frames, 64, 0);
    fewer = stack(less, 64, 1);
    printf("backtrace %d %d\n", all > 2 && all == fewer + 1, all > 1 && less[1] == frames[2]);
    number = heapledger_stack_put(frames, all);
    printf("stack %d %d\n", number > 0, all > 0 && heapledger_stack_get(number, again, 64) == (int)all && again[0] == frames[0]);

    heap = heapledger_heap_begin("own pool", pool, sizeof pool, 5);
    printf("heap %d\n", heap >= 0);
    printf("allocated %d\n", heapledger_allocated(heap, pool, 100, HEAPLEDGER_KIND_POOL));
    printf("allocated %d\n", heapledger_allocated(heap, pool + 100, 200, HEAPLEDGER_KIND_POOL));
    printf("freed %d\n", heapledger_freed(pool, HEAPLEDGER_KIND_POOL));
    number = heapledger_resizing(pool + 100, &kept_of);
    printf("resized %d %d\n", number, heapledger_resized(&kept_of, heap, pool + 300, 333, HEAPLEDGER_KIND_POOL));
    number = heapledger_resizing(pool + 300, &kept_of);
    printf("not_resized %d %d\n", number, heapledger_resized(&kept_of, heap, NULL, 4444, HEAPLEDGER_KIND_POOL));
    printf("refused %d\n", heapledger_refused(heap, 100000, 0, HEAPLEDGER_KIND_POOL));
    printf("pool %d %d %d\n", heapledger_is_live(pool), heapledger_is_live(pool + 100), heapledger_is_live(pool + 300));
    printf("heap_end %d\n", heapledger_heap_end(heap));
    printf("heap_end_again %d\n", heapledger_heap_end(heap));

    printf("pause %d\n", heapledger_pause());
    printf("paused %d\n", heapledger_state());
    printf("pause_again %d\n", heapledger_pause());
    kept = malloc(6666);
    printf("resume %d\n", heapledger_resume());
    printf("resumed %d\n", heapledger_state());
    heap_info.size = sizeof heap_info;
    number = heapledger_heap_info(&heap_info);
    printf("heap_info %d %d\n", number, heap_info.in_use_bytes >= 7777 && heap_info.system_bytes >= heap_info.in_use_bytes);
    printf("now %d\n", heapledger_now_ns() != (heapledger_u64)-1);
    printf("snapshot %d\n", count > 1 ? heapledger_snapshot(words[1]) : 0);
    printf("text %s\n", heapledger_error_text(HEAPLEDGER_E_NO_ROOM));
    return 0;
}
