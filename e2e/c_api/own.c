/* A program that records itself. It does what the words of its command line say, one after the other, and says what came of it. It may
   be built with the text of heapledger_options as OPTIONS. */

#define _GNU_SOURCE
#include <heapledger.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef OPTIONS
const char heapledger_options[] = OPTIONS;
#endif

static void *kept[16];
static int keeps;

static void say(const char *what, int answer) {
    char line[128];
    int bytes = snprintf(line, sizeof line, "%s %d\n", what, answer);
    if (write(1, line, (size_t)bytes) != bytes) _exit(3);
}

static void *keep(void *block) { return kept[keeps++ % 16] = block; }

/* Each function of the C family, and what it gives. */
__attribute__((noinline)) static void leaf(void) { keep(malloc(1234)); }

__attribute__((noinline)) static void family(void) {
    void *block = NULL, *volatile nothing = NULL, *(*volatile give)(size_t) = malloc;
    volatile size_t too_many = SIZE_MAX / 2;
    free(malloc(77));
    keep(calloc(3, 111));
    keep(realloc(malloc(10), 5000));
    keep(realloc(nothing, 321));
    keep(reallocarray(nothing, 5, 55));
    if (posix_memalign(&block, 64, 640) == 0) keep(block);
    keep(aligned_alloc(128, 1280));
    keep(memalign(256, 2560));
    free(valloc(100));
    free(memalign(64, 1));
    /* What is refused is refused, errno and all. */
    errno = 0;
    say("refused", give(too_many) == NULL && errno == ENOMEM);
    say("usable", malloc_usable_size(kept[0]) >= 1234 && malloc_usable_size(NULL) == 0);
}

__attribute__((noinline)) static void work(void) {
    leaf();
    family();
    /* Neither call is the last. */
    __asm__ volatile("");
}

static void pool(void) {
    static char room[64];
    int heap = heapledger_heap_begin("own pool", room, sizeof room, 0);
    say("heap", heap > 0);
    say("allocated", heapledger_allocated(heap, room, 33, HEAPLEDGER_KIND_POOL));
    say("allocated", heapledger_allocated(heap, room + 40, 11, HEAPLEDGER_KIND_POOL));
    say("freed", heapledger_freed(room + 40, HEAPLEDGER_KIND_POOL));
}

/* A copy of the library that is opened by hand. A static program cannot. */
static void open_library(const char *path) {
#ifdef STATIC
    say(path, 0);
#else
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*start)(const char *) = NULL;
    if (library != NULL) *(void **)&start = dlsym(library, "heapledger_start");
    say("opened", start != NULL ? start(NULL) : 1);
#endif
}

static void in_child(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        leaf();
        say("child", heapledger_state());
        say("child start", heapledger_start(NULL));
        say("child stop", heapledger_stop());
        say("child discard", heapledger_discard());
        exit(0);
    }
    waitpid(child, &status, 0);
    say("waited", status);
}

int main(int count, char **words) {
    int index;
    for (index = 1; index < count; index++) {
        const char *word = words[index], *rest = strchr(word, ':');
        if (strcmp(word, "work") == 0) work();
        else if (strcmp(word, "state") == 0) say(word, heapledger_state());
        else if (strncmp(word, "start", 5) == 0) say("start", heapledger_start(rest ? rest + 1 : NULL));
        else if (strcmp(word, "stop") == 0) say(word, heapledger_stop());
        else if (strcmp(word, "discard") == 0) say(word, heapledger_discard());
        else if (strcmp(word, "pool") == 0) pool();
        else if (strcmp(word, "fork") == 0) in_child();
        else if (strncmp(word, "open:", 5) == 0) open_library(rest + 1);
        else if (strcmp(word, "kill") == 0) raise(SIGKILL);
        else return 2;
    }
    return 0;
}
