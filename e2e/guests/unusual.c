// What few programs do, each with a word that asks for it: calls that are left for good in the middle of the recorder, children that borrow
// their parent's memory, memory that goes away unseen. It prints what it has come to, and ends with 0 if all is as without heapledger.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            dprintf(2, "line %d: %s\n", __LINE__, #condition);                \
            _exit(1);                                                         \
        }                                                                     \
    } while (0)

static void *opaque(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

// Where the library's code lies; nowhere without it.
static uintptr_t library[2];

static void find_library(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "libheapledger") && strstr(line, "r-xp"))
            CHECK(sscanf(line, "%lx-%lx", &library[0], &library[1]) == 2);
    fclose(maps);
}

static int is_inside(void *context)
{
    uintptr_t at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    return at >= library[0] && at < library[1];
}

static void every(int microseconds, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

enum { BLOCKS = 4096, JUMPS = 1500, RESIZED = 300 };

static sigjmp_buf back;
static volatile sig_atomic_t armed;
static volatile long jumped;

static void jumps(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    if (armed && is_inside(context)) {
        jumped++;
        siglongjmp(back, 1);
    }
}

// A handler leaves the recorder for good, wherever it is, when a block is freed. Then blocks are had and freed as ever.
static int jump(void)
{
    static void *volatile blocks[BLOCKS];
    volatile int n, turn;
    every(50, jumps);
    for (turn = 0; library[0] != 0 && jumped < JUMPS && turn < 2000; turn++) {
        for (n = 0; n < BLOCKS; n++)
            blocks[n] = opaque(malloc(100));
        for (n = 0; n < BLOCKS; n++) {
            if (sigsetjmp(back, 1) == 0) {
                armed = 1;
                free(blocks[n]);
            }
            armed = 0;
        }
    }
    every(0, jumps);
    for (n = 0; n < BLOCKS; n++)
        CHECK((blocks[n] = opaque(malloc(77))) != NULL);
    for (n = 0; n < BLOCKS; n++)
        free(blocks[n]);
    return 0;
}

static void *resized[RESIZED];
static volatile int next_resized;

static void resizes(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    if (is_inside(context) && next_resized < RESIZED) {
        int own = next_resized++; // another signal may come meanwhile
        resized[own] = realloc(resized[own], 5000);
    }
}

// A handler resizes blocks in the middle of the recorder.
static int resize(void)
{
    static void *blocks[512];
    for (int i = 0; i < RESIZED; i++)
        resized[i] = opaque(malloc(50));
    every(50, resizes);
    for (int turn = 0; library[0] != 0 && next_resized < RESIZED && turn < 100000; turn++) {
        for (int i = 0; i < 512; i++)
            blocks[i] = opaque(malloc(100));
        for (int i = 0; i < 512; i++)
            free(blocks[i]);
    }
    every(0, resizes);
    for (int i = 0; i < RESIZED; i++)
        free(resized[i]);
    return 0;
}

static void *borrower(void *none)
{
    pid_t child = vfork();
    if (child == 0) {
        free(opaque(malloc(33)));
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    void *blocks[300];
    for (int turn = 0; turn < 60; turn++) {
        for (int i = 0; i < 300; i++)
            CHECK((blocks[i] = opaque(malloc(40 + (size_t)i))) != NULL);
        for (int i = 0; i < 300; i++)
            free(blocks[i]);
    }
    return none;
}

// Threads whose first block is had by a child that borrows their memory: 8 * 40 of them, each with 18,000 blocks and the child's one.
static int first(void)
{
    pthread_t threads[8];
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, borrower, NULL) == 0);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}

static void recovers(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static int recovered;

static void fault(void)
{
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)opaque(NULL) = 1;
    else
        recovered++;
}

// A child that borrows the memory sets a handler, and limits itself; its parent's handler and room are its own as before.
static int handler(void)
{
    struct sigaction action = {.sa_handler = recovers}, now;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    fault();
    pid_t child = vfork();
    if (child == 0) {
        struct rlimit limit = {1L << 40, 1L << 40};
        signal(SIGSEGV, SIG_DFL);
        sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
        setrlimit(RLIMIT_AS, &limit);
        setrlimit(RLIMIT_DATA, &limit);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == recovers);
    CHECK(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    fault();
    for (int i = 0; i < 100; i++)
        CHECK(opaque(malloc(5000)) != NULL);
    printf("%d recovered\n", recovered);
    return 0;
}

static long mapped_bytes(void)
{
    char text[64];
    int file = open("/proc/self/statm", O_RDONLY);
    ssize_t read_bytes = read(file, text, sizeof text - 1);
    close(file);
    CHECK(read_bytes > 0);
    text[read_bytes] = 0;
    return atol(text) * 4096;
}

// A block of 200 MiB is moved where the address space has room for nothing else.
static int move(void)
{
    enum { KEPT = 4096 };
    size_t bytes = (size_t)200 << 20;
    unsigned char *block = malloc(bytes);
    CHECK(block != NULL);
    memset(block, 0, bytes);
    for (int i = 0; i < KEPT; i++)
        block[i] = (unsigned char)(i * 7 + 1);
    for (int i = 0; i < 5; i++) { // the ledger makes room, once it knows
        struct rlimit limit = {(rlim_t)mapped_bytes() + (1 << 20), RLIM_INFINITY};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    }
    unsigned char *moved = realloc(block, bytes + (512 << 10));
    if (moved == NULL)
        moved = block;
    for (int i = 0; i < KEPT; i++)
        CHECK(moved[i] == (unsigned char)(i * 7 + 1));
    return 0;
}

// Calls that give no block.
static int refuse(void)
{
    void *block = opaque(malloc(100));
    for (int i = 0; i < 1000; i++)
        CHECK(realloc(block, (size_t)1 << 62) == NULL);
    free(block);
    return 0;
}

// Code without tables, which holds any number in rbp.
void *allocate_with(void *rbp, size_t bytes);
__asm__(".pushsection .text.no_tables,\"ax\",@progbits\n"
        ".globl allocate_with\n"
        ".type allocate_with,@function\n"
        "allocate_with:\n"
        "    push %rbp\n"
        "    mov %rdi, %rbp\n"
        "    mov %rsi, %rdi\n"
        "    call malloc@PLT\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size allocate_with, .-allocate_with\n"
        ".popsection");

static ucontext_t outside, inside;

static void shrinking(void)
{
    enum { COUNT = 60, BYTES = 8000 };
    void *blocks[COUNT];
    free(opaque(malloc(10)));
    for (int i = 0; i < COUNT; i++)
        memset(blocks[i] = opaque(malloc(BYTES)), 0, BYTES);
    void *above = (void *)(((uintptr_t)blocks[COUNT - 1] + BYTES / 2) & ~(uintptr_t)15);
    for (int i = 0; i < 3; i++)
        free(allocate_with(above, 10));
    for (int i = COUNT; i-- > 0;)
        free(blocks[i]);
    printf("%s\n", (char *)sbrk(0) <= (char *)above ? "gone" : "still there");
    for (int i = 0; i < 3; i++)
        free(allocate_with(above, 10));
}

// On a stack from the heap: the heap above it becomes shorter, and what was readable is not.
static int shrink(void)
{
    enum { STACK_BYTES = 64 << 10 };
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = malloc(STACK_BYTES);
    inside.uc_stack.ss_size = STACK_BYTES;
    inside.uc_link = &outside;
    makecontext(&inside, shrinking, 0);
    CHECK(swapcontext(&outside, &inside) == 0);
    return 0;
}

static int status_of(pid_t child)
{
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

// Address space is limited, and what lay there is used for something else: a forked child has that, too.
static int limit(void)
{
    enum { COUNT = 40, BYTES = 1 << 20 };
    static unsigned char *blocks[COUNT];
    free(opaque(malloc(100)));
    struct rlimit space = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    CHECK(setrlimit(RLIMIT_AS, &space) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK((blocks[i] = memset(opaque(malloc(BYTES)), i + 1, BYTES)) != NULL);
    pid_t child = fork();
    if (child == 0) {
        free(opaque(malloc(1000)));
        for (int i = 0; i < COUNT; i++)
            for (int at = 0; at < BYTES; at += 4096)
                CHECK(blocks[i][at] == i + 1);
        _exit(0);
    }
    return status_of(child);
}

static void *has_a_block(void *none)
{
    free(opaque(malloc(10)));
    return none;
}

// Private memory is limited to more than the program needs: it has that as before, and gets more.
static int data_with(int (*limits)(const struct rlimit *))
{
    enum { COUNT = 1000, BYTES = 500 };
    static unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(opaque(malloc(BYTES)), i, BYTES);
    struct rlimit room = {(rlim_t)2 << 30, (rlim_t)2 << 30};
    CHECK(limits(&room) == 0);
    pthread_t thread;
    void *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    CHECK(pthread_create(&thread, NULL, has_a_block, NULL) == 0 && pthread_join(thread, NULL) == 0);
    free(memset(opaque(malloc(3000000)), 0, 3000000));
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = opaque(realloc(blocks[i], 2 * BYTES));
        for (int at = 0; at < BYTES; at++)
            CHECK(blocks[i][at] == (unsigned char)i);
        free(blocks[i]);
    }
    printf("had all\n");
    return 0;
}

static int by_setrlimit(const struct rlimit *room)
{
    return setrlimit(RLIMIT_DATA, room);
}

static int by_setrlimit64(const struct rlimit *room)
{
    return setrlimit64(RLIMIT_DATA, (const struct rlimit64 *)room);
}

static int by_prlimit(const struct rlimit *room)
{
    return prlimit(getpid(), RLIMIT_DATA, room, NULL);
}

// A limit that nobody will ever reach.
static int by_plenty(const struct rlimit *room)
{
    struct rlimit plenty = {room->rlim_cur << 14, room->rlim_max << 14};
    return setrlimit(RLIMIT_DATA, &plenty);
}

static int plenty_of_data(void)
{
    return data_with(by_plenty);
}

static int data(void)
{
    return data_with(by_setrlimit);
}

static int data64(void)
{
    return data_with(by_setrlimit64);
}

static int data_of_process(void)
{
    return data_with(by_prlimit);
}

// A child locks its memory before its first call.
static int lock(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(opaque(malloc(100)) != NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)!mlockall(MCL_CURRENT); // where that is forbidden nothing is to be seen
        for (int i = 0; i < 1000; i++)
            free(opaque(malloc(100)));
        _exit(0);
    }
    return status_of(child);
}

// Forbids itself all that it does not need, and ends as programs do.
static int filter(void)
{
#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap),
        ALLOW(SYS_newfstatat), ALLOW(SYS_read), ALLOW(SYS_futex),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    free(opaque(malloc(100)));
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    free(opaque(malloc(1000)));
    printf("filtered\n");
    exit(0);
}

// Forbids itself one call that the C library does not make.
static void put_on(int number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    free(opaque(malloc(100)));
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// And ends as programs do.
static int forbid(int number)
{
    put_on(number);
    for (int i = 0; i < 1000; i++)
        free(opaque(malloc(1000)));
    exit(0);
}

static int opens(void)
{
    return forbid(SYS_open);
}

static int draws(void)
{
    return forbid(SYS_getrandom);
}

static unsigned char *protected;
static volatile int faults;

static void unprotect(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    CHECK((unsigned char *)info->si_addr == protected + 100);
    faults++;
    CHECK(mprotect(protected, 4096, PROT_READ | PROT_WRITE) == 0);
}

// Pages of its own blocks are protected, as by a collector of garbage that wants to see each first write.
static int protect(void)
{
    struct sigaction action = {.sa_sigaction = unprotect, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK((protected = opaque(aligned_alloc(4096, 8192))) != NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(mprotect(protected, 4096, PROT_READ) == 0);
        ((volatile unsigned char *)protected)[100] = (unsigned char)i;
    }
    free(protected);
    printf("%d faults\n", faults);
    return 0;
}

// Functions of the C library that refuse what they are asked for, and touch nothing.
static int nonsense(void)
{
    char *text = strcpy(opaque(malloc(7)), "123xyz"), *end = text + 1;
    static const int bases[] = {1, 37, -1};
    for (int i = 0; i < 3; i++) {
        long number = strtol(text, &end, bases[i]);
        printf("%ld %d\n", number, (int)(end - text));
    }
    unsigned long long number = strtoull(text, &end, 36);
    printf("%llu %d\n", number, (int)(end - text));
    struct in_addr *address = memset(opaque(malloc(4)), 1, 4);
    char *shown = opaque(malloc(16));
    printf("%d\n", inet_ntop(AF_UNIX, address, shown, 16) == NULL);
    puts(inet_ntop(AF_INET, address, shown, 16));
    return 0;
}

// Frees many blocks, and then has so many that the ledger needs the room in which it remembers those; then nobody has room in the directory.
// What was written beside a block is looked up among what was freed.
static int hole(void)
{
    enum { FREED = 40000, KEPT = 180000, BROKEN = 4 };
    char *broken[BROKEN], page[4096] = {0};
    for (int i = 0; i < FREED; i++)
        free(opaque(malloc(40)));
    for (int i = 0; i < BROKEN; i++)
        broken[i] = opaque(malloc(40));
    for (int i = 0; i < KEPT; i++)
        CHECK(opaque(malloc(32)) != NULL);
    int file = open("filler", O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0);
    while (write(file, page, sizeof page) > 0)
        ;
    for (int i = 0; i < BROKEN; i++) {
        ((volatile char *)broken[i])[40] = 1;
        free(broken[i]);
    }
    printf("all freed\n");
    return 0;
}

// A child in a namespace of its own has the number that its parent has there where that is the first process, and ends as programs do.
static int namespace(void)
{
    free(opaque(malloc(100)));
    if (unshare(CLONE_NEWPID) != 0) {
        puts("no right");
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        free(opaque(malloc(1000)));
        exit(getpid() == 1 ? 0 : 1);
    }
    CHECK(status_of(child) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK(opaque(malloc(77)) != NULL);
    printf("number %d\n", getpid());
    return 0;
}

// Of memory that the C library has given beside what was asked for.
static void overrun(void)
{
    char *block = opaque(malloc(41));
    ((volatile char *)block)[41] = 1;
    free(block);
}

// How many lines of others than the program are read from what standard error has become, of which this is the other side.
static int lines_after(int number, int other)
{
    char text[4096];
    int lines = 0;
    CHECK(dup2(number, 2) == 2);
    overrun();
    for (ssize_t count; (count = read(other, text, sizeof text)) > 0;)
        for (ssize_t at = 0; at < count; at++)
            lines += text[at] == '\n';
    return lines;
}

static int lines_in(const char *name, int flags)
{
    int file = open(name, flags | O_CREAT | O_TRUNC, 0600), other = open(name, O_RDONLY);
    CHECK(file >= 0 && other >= 0);
    return lines_after(file, other);
}

// Standard error becomes what holds data, what others read, and what messages go to; and is again what it was.
static void becomes(void)
{
    int first = dup(2), sockets[2], pipes[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0 && pipe2(pipes, O_NONBLOCK) == 0);
    overrun();
    dprintf(1, "data %d,", lines_in("data", O_RDWR));
    dprintf(1, " socket %d,", lines_after(sockets[0], sockets[1]));
    dprintf(1, " pipe %d,", lines_after(pipes[1], pipes[0]));
    dprintf(1, " log %d\n", lines_in("log", O_WRONLY | O_APPEND));
    close(2);
    overrun();
    CHECK(dup2(open("/dev/zero", O_RDWR), 2) == 2);
    overrun();
    CHECK(dup2(first, 2) == 2);
    overrun();
}

static int standard_error(void)
{
    becomes();
    pid_t child = fork();
    if (child == 0) {
        becomes();
        _exit(0);
    }
    return status_of(child);
}

// Nobody may look at what standard error is.
static int unseen(void)
{
    overrun();
    put_on(SYS_fstat);
    overrun();
    return 0;
}

int main(int count, char **words)
{
    static const struct {
        const char *word;
        int (*act)(void);
    } acts[] = {{"jump", jump},       {"resize", resize}, {"first", first},  {"handler", handler},
                {"move", move},       {"refuse", refuse}, {"shrink", shrink},
                {"limit", limit},     {"lock", lock},     {"filter", filter},
                {"opens", opens},     {"draws", draws},   {"protect", protect},
                {"nonsense", nonsense}, {"data", data},
                {"data64", data64},   {"prdata", data_of_process}, {"plenty", plenty_of_data},
                {"hole", hole},         {"namespace", namespace},
                {"becomes", standard_error}, {"unseen", unseen}};
    find_library();
    for (size_t i = 0; count == 2 && i < sizeof acts / sizeof *acts; i++)
        if (strcmp(words[1], acts[i].word) == 0) {
            int status = acts[i].act();
            fflush(stdout);
            _exit(status); // blocks of the C library stay as they are
        }
    return 2;
}
