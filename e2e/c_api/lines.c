/* Live blocks as lines of libwebsockets, written by the program itself. Its argument is a directory. */
#define HEAPLEDGER_STDIO
#include "heapledger.h"
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

static void *kept_blocks[16];
static char pool[4096];
static volatile int ends;

__attribute__((noinline)) static void *small(size_t bytes) {
    return kept(malloc(bytes));
}

__attribute__((noinline)) static void *deep(int depth, size_t bytes) {
    void *block = depth ? deep(depth - 1, bytes) : kept(malloc(bytes));
    /* Not a call at the end, which needs no frame. */
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

static int open_in(const char *directory, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
}

/* To a descriptor. How many lines. */
static int to_file(const char *directory, const char *name, unsigned options) {
    struct heapledger_output output = {sizeof output, NULL, NULL, 0};
    int lines;
    output.descriptor = open_in(directory, name);
    CHECK(output.descriptor >= 0);
    lines = heapledger_live_lines(options, &output);
    CHECK(close(output.descriptor) == 0);
    return lines;
}

struct taken {
    char *text;
    size_t bytes, room;
    int left; /* pieces that are taken yet; below 0: all */
};

/* Allocates and frees, as whoever takes text may. */
static int take(void *to, const char *text, size_t bytes) {
    struct taken *taken = to;
    void *meanwhile = kept(malloc(77777));
    if (taken->left == 0) {
        free(meanwhile);
        return -1;
    }
    taken->left -= taken->left > 0;
    while (taken->bytes + bytes >= taken->room) taken->text = realloc(taken->text, taken->room *= 2);
    memcpy(taken->text + taken->bytes, text, bytes);
    taken->text[taken->bytes += bytes] = 0;
    free(meanwhile);
    return 0;
}

static size_t count(const char *text, const char *what) {
    size_t found = 0;
    while ((text = strstr(text, what))) found++, text++;
    return found;
}

static void *hammers(void *unused) {
    void *blocks[200] = {0};
    for (unsigned round = 0; !ends; round++) {
        void **block = &blocks[round * 7919 % 200];
        free(*block);
        *block = kept(malloc(10 + round % 90));
    }
    for (unsigned at = 0; at < 200; at++) free(blocks[at]);
    return unused;
}

/* The lines of what stays, in their order, whatever others do meanwhile. */
static void while_others_go_on(void) {
    static const char *const stay[] = {"~b#size: 3000, ", "~b#size: 1111, ", "~b#size: 2222, ", "~b#size: 5000, "};
    pthread_t threads[3];
    for (int at = 0; at < 3; at++) CHECK(pthread_create(&threads[at], NULL, hammers, NULL) == 0);
    for (int round = 0; round < 50; round++) {
        struct taken taken = {malloc(1 << 16), 0, 1 << 16, -1};
        struct heapledger_output output = {sizeof output, take, NULL, -1};
        const char *from;
        int lines;
        output.to = &taken;
        lines = heapledger_live_lines(HEAPLEDGER_LINES_PLAIN, &output);
        CHECK(lines > 4);
        EQUAL(count(taken.text, "\n"), lines);
        EQUAL(count(taken.text, "~b#size: "), lines);
        CHECK(count(taken.text, "~b#size: 77777,") == 0);
        from = taken.text;
        for (int at = 0; at < 4; at++) {
            EQUAL(count(taken.text, stay[at]), 1);
            from = strstr(from, stay[at]);
            CHECK(from);
        }
        free(taken.text);
    }
    ends = 1;
    for (int at = 0; at < 3; at++) CHECK(pthread_join(threads[at], NULL) == 0);
}

int main(int argc, char **argv) {
    struct taken taken = {NULL, 0, 1 << 16, -1};
    struct heapledger_output output = {sizeof output, take, NULL, -1};
    int lines, heap;
    CHECK(argc == 2);
    if (!HEAPLEDGER_PRESENT()) {
        EQUAL(heapledger_live_lines(0, NULL), HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    if (heapledger_state() == 0) {
        EQUAL(heapledger_live_lines(0, NULL), HEAPLEDGER_E_OFF);
        CHECK(heapledger_start("") == 0);
    }
    /* What the C library takes for a stream is a block, too: before those that are counted. */
    puts("lines");
    fflush(stdout);
    kept_blocks[0] = small(3000);
    free(small(4000));
    kept_blocks[1] = small(10);
    kept_blocks[2] = deep(20, 1111);
    kept_blocks[3] = deep(60, 2222);
    /* More frames than a line has room for. */
    kept_blocks[4] = deep(400, 4444);
    /* Its number is that of now: it is the youngest. */
    kept_blocks[1] = realloc(kept_blocks[1], 5000);
    heap = heapledger_heap_begin("pool", pool, sizeof pool, 0);
    CHECK(heap >= 0 && heapledger_allocated(heap, pool + 64, 123, 0) == 0);

    lines = to_file(argv[1], "compressed.log", HEAPLEDGER_LINES_COMPRESSED);
    CHECK(lines >= 5);
    EQUAL(to_file(argv[1], "plain.log", HEAPLEDGER_LINES_PLAIN), lines);
    EQUAL(to_file(argv[1], "own.log", HEAPLEDGER_LINES_OF_PROGRAM), lines);
    EQUAL(to_file(argv[1], "own_plain.log", HEAPLEDGER_LINES_OF_PROGRAM | HEAPLEDGER_LINES_PLAIN), lines);
    {
        char path[4096];
        snprintf(path, sizeof path, "%s/now.hl", argv[1]);
        CHECK(heapledger_snapshot(path) == 0);
    }

    CHECK(heapledger_live_lines(4, NULL) == HEAPLEDGER_E_INVALID && heapledger_live_lines(~0u, NULL) == HEAPLEDGER_E_INVALID);
    output.size = 8;
    CHECK(heapledger_live_lines(0, &output) == HEAPLEDGER_E_TOO_SMALL);
    output.size = sizeof output;
    output.write = NULL;
    CHECK(heapledger_live_lines(0, &output) == HEAPLEDGER_E_INVALID);
    output.descriptor = open("/dev/full", O_WRONLY);
    CHECK(heapledger_live_lines(0, &output) == -1000 - 28);
    /* Who takes three pieces is given no more. */
    output.write = take;
    taken.text = malloc(taken.room);
    taken.left = 3;
    output.to = &taken;
    CHECK(heapledger_live_lines(HEAPLEDGER_LINES_PLAIN, &output) < -1000 && taken.bytes == 3 * 256);
    free(taken.text);
    {
        struct heapledger_output stream = heapledger_file(stdout);
        CHECK(heapledger_live_lines(HEAPLEDGER_LINES_PLAIN, &stream) >= 5);
    }
    while_others_go_on();
    return 0;
}
