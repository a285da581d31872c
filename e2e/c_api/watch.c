/* Watchpoints of the processor, if this machine has any for us; its argument says what is tried.
 *
 *   refused    says the answer where there can be none
 *   counts     writes of each thread are counted, by a handler and by the watch
 *   closed     its descriptors are closed and others have their numbers, which stay
 *   dies       nobody handles the signal, in a child that is not recorded
 *   told       nobody handles it, and the recorder tells who has written
 */
#define _GNU_SOURCE
#define HEAPLEDGER_WEAK
#include "heapledger.h"
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

static volatile int trapped;
static volatile long *volatile word;

static void trap(int signal) {
    (void)signal;
    trapped++;
}

static void *writes(void *unused) {
    *word = 7;
    return unused;
}

static volatile int may_go;

static void *waits(void *unused) {
    while (!may_go) usleep(1000);
    return writes(unused);
}

__attribute__((noinline)) static void writes_here(long value) {
    *word = value;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t before, after;
    int watch, pid, status;
    word = kept(calloc(2, sizeof *word));
    if (!heapledger_state()) {
        EQUAL(heapledger_watch((void *)word, 8), HEAPLEDGER_E_ABSENT);
        puts("absent");
        return 0;
    }
    EQUAL(heapledger_watch((char *)word + 1, 8), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_watch((void *)word, 3), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_watch(NULL, 8), HEAPLEDGER_E_INVALID);
    EQUAL(heapledger_unwatch(0), HEAPLEDGER_E_UNKNOWN);
    EQUAL(heapledger_unwatch(-1), HEAPLEDGER_E_UNKNOWN);
    if (!strcmp(what, "refused")) {
        /* No descriptor is to be had. */
        struct rlimit none = {0, 0}, old;
        getrlimit(RLIMIT_NOFILE, &old);
        none.rlim_max = old.rlim_max;
        setrlimit(RLIMIT_NOFILE, &none);
        EQUAL(heapledger_watch((void *)word, 8), -1024);
        setrlimit(RLIMIT_NOFILE, &old);
        puts("refused");
        return 0;
    }
    watch = heapledger_watch((void *)word, 8);
    if (watch < 0) {
        printf("none: %d %s\n", watch, heapledger_error_text(watch));
        return 0;
    }
    EQUAL(heapledger_unwatch(watch), 0);
    if (!strcmp(what, "dies")) {
        pid = fork();
        if (pid == 0) {
            /* A child sets its own. */
            watch = heapledger_watch((void *)word, 8);
            word[1] = 1;
            if (watch >= 0) *word = 1;
            _exit(9);
        }
        waitpid(pid, &status, 0);
        CHECK(WIFSIGNALED(status));
        EQUAL(WTERMSIG(status), SIGTRAP);
        puts("died");
        return 0;
    }
    if (!strcmp(what, "closed")) {
        signal(SIGTRAP, trap);
        for (int other = 0; other < 3; other++) {
            char text[8] = "";
            int fd = -1, again = -1;
            closefrom(3);
            watch = heapledger_watch((void *)word, 8);
            CHECK(watch >= 0);
            closefrom(3);
            if (other == 0) {
                FILE *file = tmpfile();
                fd = fileno(file);
                EQUAL(write(fd, "0123456", 7), 7);
                EQUAL(lseek(fd, 0, SEEK_SET), 0);
            } else if (other == 1) {
                fd = eventfd(5, EFD_NONBLOCK);
            } else {
                again = heapledger_watch((void *)word, 8);
                CHECK(again >= 0 && again != watch);
            }
            for (int number = 3; fd >= 0 && number < 20; number++) EQUAL(dup2(fd, number), number);
            EQUAL(heapledger_unwatch(watch), 0);
            for (int number = 3; fd >= 0 && number < 20; number++) CHECK(fcntl(number, F_GETFD) >= 0);
            if (other == 0) {
                EQUAL(read(fd, text, 7), 7);
                EQUAL(strcmp(text, "0123456"), 0);
            } else if (other == 1) {
                EQUAL(read(fd, text, 8), 8);
                EQUAL(text[0], 5);
            } else {
                *word = 1;
                EQUAL(trapped, 1);
                EQUAL(heapledger_unwatch(again), 1);
            }
        }
        puts("closed");
        return 0;
    }
    if (!strcmp(what, "told")) {
        watch = heapledger_watch((void *)word, 8);
        CHECK(watch >= 0);
        for (long value = 1; value <= 3; value++) writes_here(value);
        EQUAL(*word, 3);
        EQUAL(heapledger_unwatch(watch), 3);
        writes_here(4);
        puts("told");
        return 0;
    }
    signal(SIGTRAP, trap);
    pthread_create(&before, NULL, waits, NULL);
    watch = heapledger_watch((void *)word, 8);
    CHECK(watch >= 0);
    word[1] = 1;
    EQUAL(trapped, 0);
    *word = 1;
    EQUAL(trapped, 1);
    *(volatile char *)word = 1;
    EQUAL(trapped, 2);
    pthread_create(&after, NULL, writes, NULL);
    pthread_join(after, NULL);
    EQUAL(trapped, 3);
    may_go = 1;
    pthread_join(before, NULL);
    EQUAL(trapped, 4);
    EQUAL(heapledger_unwatch(watch), 4);
    EQUAL(heapledger_unwatch(watch), HEAPLEDGER_E_UNKNOWN);
    *word = 2;
    EQUAL(trapped, 4);
    puts("counted");
    return 0;
}
