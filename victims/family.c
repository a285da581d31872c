// flags: -pthread
// run: tree
// run: threads 20
// run: workers 4 2
// stress: threads 2000
// A family of processes. Each child frees and resizes blocks of its parent's, and allocates its own; `run --children` records each
// by itself. Under plain `run` children are not recorded, and nothing else changes.
// expect: live fn=parents_block count>=1
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);                                               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { BLOCKS = 100 };
static char *blocks[BLOCKS];

__attribute__((noinline)) static char *parents_block(int i)
{
    char *p = malloc(100 + i);
    CHECK(p != NULL);
    memset(p, i, 100 + i);
    return p;
}

__attribute__((noinline)) static void *childs_block(size_t bytes)
{
    void *p = malloc(bytes);
    CHECK(p != NULL);
    return p;
}

// What each child does: `depth` more generations come of it.
static void child(int number, int depth);

static void wait_for(pid_t pid, int status)
{
    int got = -1;
    CHECK(waitpid(pid, &got, 0) == pid);
    CHECK(got == status);
}

static void child(int number, int depth)
{
    for (int i = number; i < BLOCKS; i += 4) {
        CHECK(blocks[i][99] == i);
        free(blocks[i]);
        blocks[i] = NULL;
    }
    int other = (number + 1) % 4;
    char *grown = realloc(blocks[other], 5000);
    CHECK(grown != NULL && grown[99] == other);
    blocks[other] = grown;
    void *kept = childs_block(1000 + number);
    free(childs_block(50));
    if (depth > 0) {
        pid_t pid = fork();
        if (pid == 0) {
            free(kept);          // its parent's
            free(blocks[other]); // and this
            childs_block(77);
            _exit(0);
        }
        CHECK(pid > 0);
        wait_for(pid, 0);
    }
}

static pid_t fork_child(int number)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(number % 4, 0);
        _exit(0);
    }
    return pid;
}

static void tree(void)
{
    for (int number = 0; number < 4; number++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            child(number, number == 1);
            if (number == 0)
                exit(7);
            if (number == 2)
                execl("/bin/true", "true", (char *)NULL);
            if (number == 3)
                raise(SIGKILL);
            _exit(0);
        }
        wait_for(pid, number == 0 ? 7 << 8 : number == 3 ? SIGKILL : 0);
    }
}

static atomic_int over;

static void *allocates(void *unused)
{
    (void)unused;
    void *ring[64] = {0};
    for (unsigned i = 0; !over; i++) {
        free(ring[i % 64]);
        ring[i % 64] = malloc(16 + i % 500);
        if (i % 7 == 0)
            ring[i % 64] = realloc(ring[i % 64], 900);
    }
    for (int i = 0; i < 64; i++)
        free(ring[i]);
    return NULL;
}

static void threads(int rounds)
{
    pthread_t all[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&all[i], NULL, allocates, NULL) == 0);
    for (int i = 0; i < rounds; i++)
        wait_for(fork_child(i), 0);
    over = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

// A handler that forks in the middle of whatever the program does, in malloc and in realloc as well; and the child comes back there. (Not a
// way to run it by itself: a hook that was interrupted goes on in both processes, so that its call is in the parent's ledger twice.)
static volatile sig_atomic_t forked, wanted;
static volatile pid_t first;

static void forks(int signal)
{
    (void)signal;
    if (forked >= wanted || getpid() != first)
        return;
    pid_t pid = fork();
    if (pid != 0) {
        forked++;
        int status = -1;
        if (pid > 0)
            while (waitpid(pid, &status, 0) < 0)
                ;
        CHECK(pid < 0 || status == 0);
    }
}

static void handler(int rounds)
{
    first = getpid();
    wanted = rounds;
    signal(SIGALRM, forks);
    struct itimerval every = {{0, 700}, {0, 700}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    char *p = NULL;
    int left = 3000; // of a child
    for (unsigned i = 0; forked < wanted || getpid() != first; i++) {
        p = realloc(p, 10 + i * 37 % 3000);
        CHECK(p != NULL);
        p[0] = (char)i;
        free(malloc(i % 700));
        if (getpid() != first && --left == 0)
            _exit(0);
    }
    struct itimerval none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    free(p);
}

__attribute__((noinline)) static void leaks_here(void)
{
    for (int i = 0; i < 1000; i++)
        memset(childs_block(100), 1, 100);
}

static void workers(int count, int guilty)
{
    pid_t all[64];
    CHECK(count <= 64);
    for (int i = 0; i < count; i++) {
        all[i] = fork();
        CHECK(all[i] >= 0);
        if (all[i] == 0) {
            for (int round = 0; round < 500; round++)
                free(childs_block(200));
            if (i == guilty)
                leaks_here();
            _exit(0);
        }
    }
    for (int i = 0; i < count; i++)
        wait_for(all[i], 0);
}

// A daemon: forks twice, and goes on when its parents are gone, until the file is there.
static void daemon_until(const char *file)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        for (int fd = 0; fd < 3; fd++)
            close(fd); // whoever reads what is printed waits for its end else
        for (int i = 0; i < 3000 && access(file, F_OK) != 0; i++) {
            childs_block(64);
            usleep(10000);
        }
        _exit(0);
    }
    wait_for(pid, 0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    int number = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = parents_block(i);
    switch (argv[1][0]) {
    case 'n': // many, one after the other
        for (int i = 0; i < number; i++)
            wait_for(fork_child(i), 0);
        break;
    case 'b': // many at once
        for (int i = 0; i < number; i++)
            fork_child(i);
        for (int i = 0; i < number; i++)
            CHECK(wait(NULL) > 0);
        break;
    case 't':
        argv[1][1] == 'r' ? tree() : threads(number);
        break;
    case 'h':
        handler(number);
        break;
    case 'w':
        CHECK(argc > 3);
        workers(number, atoi(argv[3]));
        break;
    case 'd':
        CHECK(argc > 2);
        daemon_until(argv[2]);
        break;
    default:
        CHECK(!"known");
    }
    return 0;
}
