// run: nothing
// Three processes that hold most at different moments; with a number N, each then frees N small blocks, so that a short history does not
// hold any more what they freed before. With a file as well, they stay as they are at the peak until it has two more lines of memory. All together hold most while `second` does: 20 and 8 MiB in the first process, 5 MiB of `first_child`,
// 50 MiB of `second_child`.
// expect: live fn=kept count=80
#include "victim.h"

enum { BLOCK = 100 << 10, MIB = 10 };

CALL_SITE void *kept(void)
{
    return malloc(BLOCK);
}

CALL_SITE void *at_the_peak(void)
{
    return malloc(BLOCK);
}

CALL_SITE void *before_it(void)
{
    return malloc(BLOCK);
}

CALL_SITE void *after_it(void)
{
    return malloc(BLOCK);
}

CALL_SITE void *small(void)
{
    return malloc(16);
}

static void *blocks[2000];
static int held;

static void flood(void *(*of)(void), int mib)
{
    for (int i = 0; i < mib * MIB; i++) {
        CHECK(held < 2000);
        blocks[held] = of();
        CHECK(blocks[held] != NULL);
        memset(blocks[held++], 1, BLOCK);
    }
}

static void ebb(int mib)
{
    for (int i = 0; i < mib * MIB; i++)
        free(blocks[--held]);
}

static void forget(int number)
{
    for (int i = 0; i < number; i++)
        free(opaque(small()));
}

// Until everybody is so far. What is seen from outside is seen now and then: each state stays for a while.
static int *arrived;

static void together(int step)
{
    usleep(150000);
    __atomic_add_fetch(&arrived[step], 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived[step], __ATOMIC_SEQ_CST) < 3)
        usleep(1000);
}

// Lines of the list of processes that tell of memory.
static int looks(const char *list)
{
    char line[4096];
    int number = 0;
    FILE *in = fopen(list, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        number += strncmp(line, "{\"memory\"", 9) == 0;
    if (in != NULL)
        fclose(in);
    return number;
}

static void until_seen(const char *list)
{
    int before = list ? looks(list) : 0;
    for (int i = 0; list != NULL && looks(list) < before + 2; i++) {
        CHECK(i < 3000);
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    int number = argc > 1 ? atoi(argv[1]) : 0;
    arrived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(arrived != MAP_FAILED);
    flood(kept, 8);
    pid_t first = fork();
    if (first == 0) {
        held = 0;
        flood(before_it, 30);
        together(0);
        ebb(25);
        together(1);
        together(2);
        flood(after_it, 40);
        together(3);
        ebb(45);
        forget(number);
        _exit(0);
    }
    pid_t second = fork();
    if (second == 0) {
        held = 0;
        together(0);
        flood(at_the_peak, 50);
        together(1);
        together(2);
        ebb(50);
        together(3);
        forget(number);
        _exit(0);
    }
    CHECK(first > 0 && second > 0);
    together(0);
    flood(at_the_peak, 20);
    together(1);
    until_seen(argc > 2 ? argv[2] : NULL);
    together(2);
    ebb(20);
    together(3);
    forget(number);
    for (int i = 0; i < 2; i++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    return 0;
}
