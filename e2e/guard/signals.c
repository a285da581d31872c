// What a program does with faults of its own, and what it asks about that: the same at every level. The first word names one of the
// cases below; each prints what it sees.
//
// With `bad` as the second word, a block is touched that was freed, in the middle of it: that is told, and nothing else changes.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static int is_bad;
static volatile int sink;

__attribute__((noinline)) static void wrong(void) {
    if (!is_bad)
        return;
    char *block = malloc(100);
    memset(block, 7, 100);
    __asm__ volatile("" : "+r"(block));
    free(block);
    __asm__ volatile("" : "+r"(block));
    sink = block[50];
}

static char *page;
static sigjmp_buf back;
static volatile sig_atomic_t seen;

static void opens(int signal, siginfo_t *info, void *context) {
    (void)context;
    seen++;
    printf("fault %d at page+%ld code %d\n", signal, (long)((char *)info->si_addr - page), info->si_code);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void jumps(int signal) {
    seen++;
    siglongjmp(back, signal);
}

static void set(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaction(number, &action, NULL))
        perror("sigaction");
}

// A handler that opens the page: the instruction is executed again.
static void repaired(void) {
    set(SIGSEGV, opens, 0);
    for (int i = 0; i < 3; i++) {
        mprotect(page, 4096, PROT_NONE);
        wrong();
        page[100 + i] = (char)i;
        wrong();
    }
    printf("%d faults\n", (int)seen);
}

// One that jumps out, again and again.
static void left(void) {
    signal(SIGSEGV, jumps);
    mprotect(page, 4096, PROT_NONE);
    for (volatile int i = 0; i < 1000; i++) {
        if (i % 100 == 0)
            wrong();
        if (sigsetjmp(back, 1) == 0)
            sink = page[i];
    }
    wrong();
    printf("%d faults\n", (int)seen);
}

// What was set is told; so is what was not.
static void asked(void) {
    struct sigaction old, action = {0};
    sigaction(SIGSEGV, NULL, &old);
    printf("default %d flags %x\n", old.sa_handler == SIG_DFL, (unsigned)old.sa_flags);
    set(SIGSEGV, opens, SA_RESTART | SA_NODEFER);
    sigaction(SIGSEGV, NULL, &old);
    printf("own %d flags %x usr1 %d usr2 %d\n", old.sa_sigaction == opens, (unsigned)old.sa_flags, sigismember(&old.sa_mask, SIGUSR1),
           sigismember(&old.sa_mask, SIGUSR2));
    printf("signal %d\n", signal(SIGSEGV, jumps) == (void (*)(int))opens);
    printf("again %d\n", signal(SIGSEGV, SIG_IGN) == jumps);
    printf("ignored %d\n", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    printf("bus %d\n", signal(SIGBUS, jumps) == SIG_DFL);
    sigaction(SIGBUS, NULL, &old);
    printf("bus %d flags %x\n", old.sa_handler == jumps, (unsigned)old.sa_flags);
    sigfillset(&action.sa_mask);
    action.sa_handler = jumps;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR1, NULL, &old);
    printf("usr1 masks segv %d bus %d usr2 %d\n", sigismember(&old.sa_mask, SIGSEGV), sigismember(&old.sa_mask, SIGBUS),
           sigismember(&old.sa_mask, SIGUSR2));
    errno = 0;
    printf("bad %d errno %d\n", sigaction(12345, &action, NULL), errno);
    errno = 0;
    printf("kill %d errno %d\n", sigaction(SIGKILL, &action, NULL), errno);
    errno = 0;
    printf("bad %d errno %d\n", signal(12345, jumps) == SIG_ERR, errno);
    wrong();
}

// A handler that is used once: a second fault ends the program.
static void once(void) {
    struct sigaction action = {.sa_sigaction = opens, .sa_flags = SA_SIGINFO | SA_RESETHAND}, old;
    sigaction(SIGSEGV, &action, NULL);
    wrong();
    mprotect(page, 4096, PROT_NONE);
    page[1] = 1;
    wrong();
    sigaction(SIGSEGV, NULL, &old);
    printf("default %d\n", old.sa_handler == SIG_DFL);
    fflush(stdout);
    mprotect(page, 4096, PROT_NONE);
    page[2] = 1;
}

// No handler: the program dies of it, at the instruction.
static void dies(void) {
    wrong();
    fflush(stdout);
    mprotect(page, 4096, PROT_NONE);
    page[2] = 1;
}

// Somebody sends it.
static void sent(void) {
    signal(SIGSEGV, jumps);
    if (sigsetjmp(back, 1) == 0)
        raise(SIGSEGV);
    printf("%d\n", (int)seen);
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    signal(SIGSEGV, SIG_DFL);
    fflush(stdout);
    wrong();
    raise(SIGSEGV);
}

static char alternate[65536];

static void says_where(int number, siginfo_t *info, void *context) {
    (void)info;
    char here;
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    printf("alternate %d usr1 blocked %d\n", &here >= alternate && &here < alternate + sizeof alternate, sigismember(&now, SIGUSR1));
    printf("ip is that of the fault %d\n", ((ucontext_t *)context)->uc_mcontext.gregs[REG_TRAPNO] == 14);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    (void)number;
}

// On a stack of its own.
static void apart(void) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    set(SIGSEGV, says_where, SA_ONSTACK);
    mprotect(page, 4096, PROT_NONE);
    wrong();
    page[5] = 1;
    set(SIGSEGV, says_where, 0);
    mprotect(page, 4096, PROT_NONE);
    wrong();
    page[5] = 1;
}

static void *all_blocked(void *argument) {
    sigset_t all, old;
    sigfillset(&all);
    printf("mask %d\n", pthread_sigmask(SIG_SETMASK, &all, NULL));
    wrong();
    sigprocmask(SIG_BLOCK, &all, &old);
    printf("usr1 %d\n", sigismember(&old, SIGUSR1));
    wrong();
    return argument;
}

// A thread that blocks all signals.
static void blocked(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, all_blocked, NULL);
    pthread_join(thread, NULL);
}

static void in_handler(int signal) {
    (void)signal;
    wrong();
    seen++;
}

// In a handler that blocks all signals while it runs.
static void handled(void) {
    struct sigaction action = {.sa_handler = in_handler};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("%d\n", (int)seen);
}

// In a child.
static void forked(void) {
    signal(SIGSEGV, jumps);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        mprotect(page, 4096, PROT_NONE);
        if (sigsetjmp(back, 1) == 0)
            sink = page[1];
        wrong();
        printf("child %d\n", (int)seen);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("status %d\n", status);
    wrong();
}

static void *repairs(void *argument) {
    char *own = argument;
    for (int i = 0; i < 200; i++) {
        wrong();
        own[i] = 1;
        free(malloc(100 + i));
    }
    return argument;
}

// Four threads at once.
static void many(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, repairs, page + 1000 * i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("done");
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"repaired", repaired}, {"left", left},       {"asked", asked},     {"once", once},     {"dies", dies}, {"sent", sent},
             {"apart", apart},       {"blocked", blocked}, {"handled", handled}, {"forked", forked}, {"many", many}};

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_bad = argc > 2 && strcmp(argv[2], "bad") == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        puts(cases[i].name);
    return 0;
}
