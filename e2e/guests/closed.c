// What programs do with pages of their own blocks, and with signals that say so: each word is one act. What it prints is the same with and without
// a guard.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *aligned(size_t bytes)
{
    void *block = NULL;
    if (posix_memalign(&block, 4096, bytes))
        abort();
    return block;
}

static void protect(char *first, size_t bytes, int how)
{
    if (mprotect(first, bytes, how))
        abort();
}

// A page that nobody can touch at the end of a stack.
static void stack(void)
{
    for (int i = 0; i < 200; i++) {
        char *block = aligned(1 << 18);
        protect(block, 4096, PROT_NONE);
        memset(block + 4096, i, 4096);
        block[(1 << 18) - 1] = 1;
        free(block);
    }
    puts("stacks");
}

static void whole(void)
{
    const size_t bytes = (1 << 20) - 5000;
    for (int i = 0; i < 20; i++) {
        char *block = aligned(bytes);
        memset(block, i, bytes);
        protect(block, bytes, i % 2 ? PROT_NONE : PROT_READ);
        free(block);
    }
    char *moved = aligned(bytes);
    memset(moved, 7, bytes);
    protect(moved, bytes, PROT_READ);
    moved = realloc(moved, 2 * bytes);
    printf("whole %d\n", moved[bytes - 1]);
    free(moved);
}

static void kept(void)
{
    char *block = aligned((1 << 20) - 5000);
    memset(block, 1, (1 << 20) - 5000);
    protect(block, (1 << 20) - 5000, PROT_NONE);
    puts("kept");
}

// As libraries do that have a device write into a buffer.
static void apart(void)
{
    const size_t bytes = 1 << 20;
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    char *first = (char *)((size_t)block & ~(size_t)4095);
    char *end = (char *)(((size_t)block + bytes + 4095) & ~(size_t)4095);
    if (madvise(first, (size_t)(end - first), MADV_DONTFORK))
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(10));
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child %x\n", status);
    free(block);
}

static sigjmp_buf before;
static volatile int faults;

static void faulted(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(before, 1);
}

// Into a block that is gone, and behind one that is there.
static void jump(void)
{
    struct sigaction action = {.sa_handler = faulted};
    sigaction(SIGSEGV, &action, NULL);
    char *volatile gone = malloc(64);
    char *volatile there = malloc(64);
    free(gone);
    if (!sigsetjmp(before, 1))
        ((void (*)(void))gone)();
    if (!sigsetjmp(before, 1))
        ((void (*)(void))(there + 64))();
    free(there);
    printf("faults %d\n", faults);
}

static struct sigaction earlier;
static volatile int aborts;

static void aborted(int signal)
{
    if (++aborts > 3) {
        puts("again and again");
        fflush(stdout);
        _exit(1);
    }
    if (earlier.sa_handler != SIG_DFL)
        earlier.sa_handler(signal);
    puts("the usual");
    fflush(stdout);
    _exit(0);
}

// Its handler calls the one that was there before.
static void chain(void)
{
    struct sigaction action = {.sa_handler = aborted};
    sigaction(SIGABRT, &action, &earlier);
    char *block = malloc(10);
    if (block)
        abort();
}

// Whether the C library's malloc has begun with its heap, although the program has one thread and no block of it.
static void ready(void)
{
    char line[512];
    int has = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        has += strstr(line, "[heap]") != NULL;
    printf("heaps %d\n", has);
}

// A system call beside a few is the end of it; and it writes past a block.
static void shut(void)
{
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof steps / sizeof *steps, steps};
    char *volatile block = malloc(40);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        _exit(1);
    block[40] = 1;
    free(block);
    free(malloc(100));
    _exit(write(1, "shut in\n", 8) != 8);
}

int main(int count, char **words)
{
    static const struct {
        const char *word;
        void (*act)(void);
    } acts[] = {
        {"stack", stack}, {"whole", whole}, {"kept", kept},   {"apart", apart},
        {"jump", jump},   {"chain", chain}, {"ready", ready}, {"shut", shut},
    };
    for (size_t i = 0; count > 1 && i < sizeof acts / sizeof *acts; i++) {
        if (strcmp(words[1], acts[i].word) == 0) {
            acts[i].act();
            return 0;
        }
    }
    return 2;
}
