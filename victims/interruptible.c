// flags: -pthread
// run:
// run: whole
// expect: live fn=asleep_block kind=malloc count=1 bytes=321
// In each call of signal(7) that a signal can interrupt there is a thread. None may come back before what it waits for has
// happened, or its time is over, and none with EINTR where no handler ran. Prints what is asleep, then waits for the end of its
// input and wakes all. ARG1: `whole`, with calls that have done a part when they fall asleep, which no tracer can mend. ARG2: how
// long the calls with a time sleep, in ms, default 300; their threads are named `times`, the others `waits`. `ioctl` is not here:
// no device that there is everywhere has one that sleeps.
#include "victim.h"

#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

#define HOUR 3600

// One thread: what it waits in, and what wakes it.
struct waiter {
    const struct call *call;
    pthread_t thread;
    int a, b;            // descriptors, or numbers of queues
    long number;         // what else it needs
    void *memory;
    volatile int tid;    // 0 until it is about to wait
};
struct call {
    const char *name;
    // 1 if it ended as it should have.
    int (*wait)(struct waiter *);
    // NULL: it ends by itself when its time is over.
    void (*wake)(struct waiter *);
    // It had done a part before it slept.
    int is_partial;
};

static volatile int released;
// Which signal this thread has handled: another thread's handler may run before this one has looked.
static __thread volatile int handled;
static long span_ms;
static char directory[] = "/tmp/interruptible.XXXXXX";

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static struct timespec timespec_of(long ms) { return (struct timespec){ms / 1000, ms % 1000 * 1000000}; }
static struct timespec at(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    long ns = t.tv_nsec + ms % 1000 * 1000000;
    return (struct timespec){t.tv_sec + ms / 1000 + ns / 1000000000, ns % 1000000000};
}
// From here on it is in the call.
static void ready(struct waiter *w) { w->tid = gettid(); }
static void on_signal(int number) { handled = number; }
static void byte_to(int fd) { CHECK(write(fd, "x", 1) == 1); }
static const char *file_in(const char *name)
{
    static __thread char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}
// A number of its own for files and queues.
static const char *own_name(const struct waiter *w, const char *what)
{
    static __thread char name[64];
    snprintf(name, sizeof name, "%s-%s", what, w->call->name);
    return name;
}

// -- What they wait for -----------------------------------------------------------------------------------------------

static void make_pipe(struct waiter *w)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    w->a = ends[0], w->b = ends[1];
}
static void fill(int fd)
{
    static char zeros[4096];
    int flags = fcntl(fd, F_GETFL);
    CHECK(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
    while (write(fd, zeros, sizeof zeros) > 0 || write(fd, zeros, 1) > 0)
        ;
    CHECK(errno == EAGAIN && fcntl(fd, F_SETFL, flags) == 0);
}
static void full_pipe(struct waiter *w) { make_pipe(w), fill(w->b); }
static void make_sockets(struct waiter *w, int kind)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0);
    w->a = ends[0], w->b = ends[1];
}
static void limit_time(int fd, int which, long ms)
{
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    CHECK(setsockopt(fd, SOL_SOCKET, which, &t, sizeof t) == 0);
}
static void drain(int fd)
{
    static char rest[1 << 16];
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    while (read(fd, rest, sizeof rest) > 0)
        ;
}
static void wake_by_byte(struct waiter *w) { byte_to(w->b); }
static void wake_by_drain(struct waiter *w) { drain(w->a); }

static int in_read(struct waiter *w)
{
    char c;
    make_pipe(w), ready(w);
    return read(w->a, &c, 1) == 1;
}
static int in_readv(struct waiter *w)
{
    char c[2];
    struct iovec parts[2] = {{c, 1}, {c + 1, 1}};
    make_pipe(w), ready(w);
    return readv(w->a, parts, 2) == 1;
}
static int in_write(struct waiter *w)
{
    full_pipe(w), ready(w);
    return write(w->b, "x", 1) == 1;
}
static int in_writev(struct waiter *w)
{
    struct iovec part = {"x", 1};
    full_pipe(w), ready(w);
    return writev(w->b, &part, 1) == 1;
}
// More than a pipe holds: some of it is in the pipe when the call falls asleep.
static int in_long_write(struct waiter *w)
{
    static char much[300000];
    make_pipe(w), ready(w);
    return write(w->b, much, sizeof much) == sizeof much;
}
static void wake_long_write(struct waiter *w)
{
    char rest[4096];
    for (long left = 300000, n; left > 0; left -= n)
        CHECK((n = read(w->a, rest, sizeof rest)) > 0);
}
static int in_recv_all(struct waiter *w)
{
    char c[2];
    make_sockets(w, SOCK_STREAM), byte_to(w->b), ready(w);
    return recv(w->a, c, 2, MSG_WAITALL) == 2;
}
static int in_splice(struct waiter *w)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    make_pipe(w), ready(w);
    return splice(w->a, NULL, ends[1], NULL, 1, 0) == 1;
}
static int in_tee(struct waiter *w)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    make_pipe(w), ready(w);
    return tee(w->a, ends[1], 1, 0) == 1;
}
static int in_eventfd(struct waiter *w)
{
    uint64_t count;
    w->a = eventfd(0, 0), ready(w);
    return read(w->a, &count, 8) == 8 && count == 5;
}
static void wake_eventfd(struct waiter *w)
{
    uint64_t count = 5;
    CHECK(write(w->a, &count, 8) == 8);
}
static int in_timerfd(struct waiter *w)
{
    uint64_t count;
    w->a = timerfd_create(CLOCK_MONOTONIC, 0), ready(w);
    return read(w->a, &count, 8) == 8;
}
static void wake_timerfd(struct waiter *w)
{
    struct itimerspec soon = {.it_value = {0, 1}};
    CHECK(timerfd_settime(w->a, 0, &soon, NULL) == 0);
}
static int in_signalfd(struct waiter *w)
{
    struct signalfd_siginfo info;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGRTMIN + 3);
    w->a = signalfd(-1, &set, 0), ready(w);
    return read(w->a, &info, sizeof info) == sizeof info && (int)info.ssi_signo == SIGRTMIN + 3;
}
static void wake_signalfd(struct waiter *w) { CHECK(tgkill(getpid(), w->tid, SIGRTMIN + 3) == 0); }
static int in_inotify(struct waiter *w)
{
    char event[512];
    w->a = inotify_init1(0);
    CHECK(mkdir(file_in("watched"), 0700) == 0 && inotify_add_watch(w->a, file_in("watched"), IN_CREATE) >= 0);
    ready(w);
    return read(w->a, event, sizeof event) > 0;
}
static void wake_inotify(struct waiter *w)
{
    (void)w;
    close(open(file_in("watched/new"), O_CREAT | O_WRONLY, 0600));
}
static int in_open(struct waiter *w)
{
    CHECK(mkfifo(file_in("fifo"), 0600) == 0);
    ready(w);
    int fd = open(file_in("fifo"), O_RDONLY);
    return fd >= 0;
}
static void wake_open(struct waiter *w)
{
    (void)w;
    close(open(file_in("fifo"), O_WRONLY));
}
static int in_terminal(struct waiter *w)
{
    char c, name[64];
    w->b = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(w->b >= 0 && grantpt(w->b) == 0 && unlockpt(w->b) == 0 && ptsname_r(w->b, name, sizeof name) == 0);
    CHECK((w->a = open(name, O_RDWR | O_NOCTTY)) >= 0);
    ready(w);
    return read(w->a, &c, 1) == 1;
}
static void wake_terminal(struct waiter *w) { CHECK(write(w->b, "x\n", 2) == 2); }

// -- Children ---------------------------------------------------------------------------------------------------------

// Else a child whose parent has failed keeps the parent's output open, and who reads that waits for ever.
static void end_with_parent(void) { CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); }

// A child that ends when the pipe is written to.
static pid_t sleeping_child(struct waiter *w)
{
    make_pipe(w);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char c;
        close(w->b);
        end_with_parent();
        _exit(read(w->a, &c, 1) == 1 ? 9 : 8);
    }
    return child;
}
static int in_waitpid(struct waiter *w)
{
    int status;
    pid_t child = sleeping_child(w);
    ready(w);
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9;
}
static int in_waitid(struct waiter *w)
{
    siginfo_t info;
    pid_t child = sleeping_child(w);
    ready(w);
    return waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_status == 9;
}

// -- Locks ------------------------------------------------------------------------------------------------------------

static int in_flock(struct waiter *w)
{
    w->a = open(file_in("flock"), O_CREAT | O_RDWR, 0600);
    w->b = open(file_in("flock"), O_RDWR);
    CHECK(w->a >= 0 && w->b >= 0 && flock(w->a, LOCK_EX) == 0);
    ready(w);
    return flock(w->b, LOCK_EX) == 0;
}
static void wake_flock(struct waiter *w) { CHECK(flock(w->a, LOCK_UN) == 0); }
static int in_fcntl(struct waiter *w)
{
    struct flock lock = {.l_type = F_WRLCK};
    w->number = open(file_in("fcntl"), O_CREAT | O_RDWR, 0600);
    make_pipe(w);
    int said[2];
    CHECK(pipe(said) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char c;
        end_with_parent();
        if (fcntl((int)w->number, F_SETLK, &lock) != 0)
            _exit(8);
        byte_to(said[1]);
        _exit(read(w->a, &c, 1) == 1 ? 9 : 8);
    }
    char c;
    CHECK(read(said[0], &c, 1) == 1);
    ready(w);
    int has = fcntl((int)w->number, F_SETLKW, &lock) == 0;
    reap(child, 9);
    return has;
}
static int in_ofd_lock(struct waiter *w)
{
    struct flock lock = {.l_type = F_WRLCK};
    w->a = open(file_in("ofd"), O_CREAT | O_RDWR, 0600);
    w->b = open(file_in("ofd"), O_RDWR);
    CHECK(w->a >= 0 && w->b >= 0 && fcntl(w->a, F_OFD_SETLK, &lock) == 0);
    ready(w);
    return fcntl(w->b, F_OFD_SETLKW, &lock) == 0;
}
static void wake_ofd_lock(struct waiter *w)
{
    struct flock lock = {.l_type = F_UNLCK};
    CHECK(fcntl(w->a, F_OFD_SETLK, &lock) == 0);
}
static int futex_word(struct waiter *w, int operation, struct timespec *t, unsigned bits)
{
    static int words[8];
    w->memory = &words[w->number = operation & 7];
    ready(w);
    return (int)syscall(SYS_futex, w->memory, operation, 0, t, NULL, bits);
}
static int in_futex(struct waiter *w) { return futex_word(w, FUTEX_WAIT, NULL, 0) == 0; }
static int in_futex_timed(struct waiter *w)
{
    struct timespec t = at(CLOCK_MONOTONIC, HOUR * 1000);
    return futex_word(w, FUTEX_WAIT_BITSET, &t, ~0u) == 0;
}
static void wake_futex(struct waiter *w) { CHECK(syscall(SYS_futex, w->memory, FUTEX_WAKE, 1, NULL, NULL, 0) == 1); }
static int in_futex_relative(struct waiter *w)
{
    int word = 0;
    struct timespec t = timespec_of(span_ms);
    ready(w);
    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, NULL, 0) == -1 && errno == ETIMEDOUT;
}
static int in_futex_waitv(struct waiter *w)
{
#ifdef SYS_futex_waitv
    static struct futex_waitv one;
    static int word;
    one.uaddr = (uintptr_t)&word, one.flags = FUTEX_32, w->memory = &word;
    ready(w);
    long n = syscall(SYS_futex_waitv, &one, 1, 0, NULL, 0);
    if (n == 0 || errno != ENOSYS)
        return n == 0;
#endif
    while (!released)
        usleep(1000);
    return 1;
}
static void wake_futex_waitv(struct waiter *w) { syscall(SYS_futex, w->memory, FUTEX_WAKE, 1, NULL, NULL, 0); }
static sem_t sems[3];
static int in_sem_wait(struct waiter *w)
{
    ready(w);
    return sem_wait(&sems[0]) == 0;
}
static void wake_sem_wait(struct waiter *w) { (void)w, sem_post(&sems[0]); }
static int in_sem_timedwait(struct waiter *w)
{
    struct timespec t = at(CLOCK_REALTIME, HOUR * 1000);
    ready(w);
    return sem_timedwait(&sems[1], &t) == 0;
}
static void wake_sem_timedwait(struct waiter *w) { (void)w, sem_post(&sems[1]); }
static int in_sem_timeout(struct waiter *w)
{
    struct timespec t = at(CLOCK_REALTIME, span_ms);
    ready(w);
    return sem_timedwait(&sems[2], &t) == -1 && errno == ETIMEDOUT;
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, waited = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int in_mutex(struct waiter *w)
{
    ready(w);
    return pthread_mutex_lock(&mutex) == 0;
}
static void wake_mutex(struct waiter *w) { (void)w, pthread_mutex_unlock(&mutex); }
static int in_cond_wait(struct waiter *w)
{
    pthread_mutex_lock(&waited);
    ready(w);
    // Other than EINTR a condition may be woken for nothing.
    int status = 0;
    while (!released && status == 0)
        status = pthread_cond_wait(&cond, &waited);
    pthread_mutex_unlock(&waited);
    return status == 0;
}
static void wake_cond_wait(struct waiter *w)
{
    (void)w;
    pthread_mutex_lock(&waited);
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&waited);
}
static void *joined(void *end)
{
    char c;
    return read(*(int *)end, &c, 1) == 1 ? end : NULL;
}
static int in_join(struct waiter *w)
{
    pthread_t other;
    void *result = NULL;
    make_pipe(w);
    CHECK(pthread_create(&other, NULL, joined, &w->a) == 0);
    ready(w);
    return pthread_join(other, &result) == 0 && result == &w->a;
}

// -- Sockets ----------------------------------------------------------------------------------------------------------

static int receive(struct waiter *w, long limit_ms, int how)
{
    char c;
    struct iovec part = {&c, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = message};
    make_sockets(w, SOCK_DGRAM);
    if (limit_ms)
        limit_time(w->a, SO_RCVTIMEO, limit_ms);
    ready(w);
    switch (how) {
    case 0: return (int)recv(w->a, &c, 1, 0);
    case 1: return (int)recvfrom(w->a, &c, 1, 0, NULL, NULL);
    case 2: return (int)recvmsg(w->a, &message, 0);
    case 3: return (int)read(w->a, &c, 1);
    default: return recvmmsg(w->a, &several, 1, 0, NULL);
    }
}
static int in_recv(struct waiter *w) { return receive(w, 0, 0) == 1; }
static int in_recvmsg(struct waiter *w) { return receive(w, 0, 2) == 1; }
static int in_recvmmsg(struct waiter *w) { return receive(w, 0, 4) == 1; }
static int in_recv_limited(struct waiter *w) { return receive(w, HOUR * 1000, 1) == 1; }
static int in_recvmsg_limited(struct waiter *w) { return receive(w, HOUR * 1000, 2) == 1; }
static int in_recvmmsg_limited(struct waiter *w) { return receive(w, HOUR * 1000, 4) == 1; }
static int in_read_limited(struct waiter *w) { return receive(w, HOUR * 1000, 3) == 1; }
static int in_recv_timeout(struct waiter *w) { return receive(w, span_ms, 0) == -1 && errno == EAGAIN; }
static int deliver(struct waiter *w, long limit_ms, int how)
{
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = message};
    make_sockets(w, SOCK_STREAM), fill(w->b);
    if (limit_ms)
        limit_time(w->b, SO_SNDTIMEO, limit_ms);
    ready(w);
    switch (how) {
    case 0: return (int)send(w->b, "x", 1, 0);
    case 1: return (int)sendmsg(w->b, &message, 0);
    case 2: return sendmmsg(w->b, &several, 1, 0);
    default: return (int)write(w->b, "x", 1);
    }
}
static int in_send(struct waiter *w) { return deliver(w, 0, 0) == 1; }
static int in_send_limited(struct waiter *w) { return deliver(w, HOUR * 1000, 0) == 1; }
static int in_sendmsg_limited(struct waiter *w) { return deliver(w, HOUR * 1000, 1) == 1; }
static int in_sendmmsg_limited(struct waiter *w) { return deliver(w, HOUR * 1000, 2) == 1; }
static int in_write_limited(struct waiter *w) { return deliver(w, HOUR * 1000, 3) == 1; }
static int in_sendfile(struct waiter *w)
{
    int file = open("/proc/self/exe", O_RDONLY);
    make_sockets(w, SOCK_STREAM), fill(w->b), ready(w);
    return sendfile(w->b, file, NULL, 1) == 1;
}
static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", directory, name);
    return address;
}
static int listener(struct waiter *w, const char *what, int backlog)
{
    struct sockaddr_un address = address_of(own_name(w, what));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, backlog) == 0);
    return fd;
}
static int connected(const struct waiter *w, const char *what, int fd)
{
    struct sockaddr_un address = address_of(own_name(w, what));
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}
static int in_accept(struct waiter *w)
{
    w->a = listener(w, "accept", 5), ready(w);
    return accept(w->a, NULL, NULL) >= 0;
}
static int in_accept_limited(struct waiter *w)
{
    w->a = listener(w, "accept", 5), limit_time(w->a, SO_RCVTIMEO, HOUR * 1000), ready(w);
    return accept4(w->a, NULL, NULL, SOCK_CLOEXEC) >= 0;
}
static void wake_accept(struct waiter *w) { CHECK(connected(w, "accept", socket(AF_UNIX, SOCK_STREAM, 0)) == 0); }
static int in_accept_timeout(struct waiter *w)
{
    w->a = listener(w, "never", 5), limit_time(w->a, SO_RCVTIMEO, span_ms), ready(w);
    return accept(w->a, NULL, NULL) == -1 && errno == EAGAIN;
}
// The queue of those who wait to be accepted is full.
static int connecting(struct waiter *w, long limit_ms)
{
    w->a = listener(w, "connect", 0);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connected(w, "connect", fd) != 0)
            break;
    }
    CHECK(errno == EAGAIN);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (limit_ms)
        limit_time(fd, SO_SNDTIMEO, limit_ms);
    ready(w);
    return connected(w, "connect", fd) == 0;
}
static int in_connect(struct waiter *w) { return connecting(w, 0); }
static int in_connect_limited(struct waiter *w) { return connecting(w, HOUR * 1000); }
static void wake_connect(struct waiter *w) { CHECK(accept(w->a, NULL, NULL) >= 0); }

// -- Waiting for several ----------------------------------------------------------------------------------------------

static int epoll_of(struct waiter *w)
{
    struct epoll_event event = {.events = EPOLLIN};
    make_pipe(w);
    int fd = epoll_create1(0);
    CHECK(fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, w->a, &event) == 0);
    return fd;
}
static int in_epoll_wait(struct waiter *w)
{
    struct epoll_event event;
    int fd = epoll_of(w);
    ready(w);
    return epoll_wait(fd, &event, 1, -1) == 1;
}
static int in_epoll_wait_long(struct waiter *w)
{
    struct epoll_event event;
    int fd = epoll_of(w);
    ready(w);
    return epoll_wait(fd, &event, 1, HOUR * 1000) == 1;
}
static int in_epoll_pwait(struct waiter *w)
{
    struct epoll_event event;
    sigset_t set;
    sigfillset(&set);
    int fd = epoll_of(w);
    ready(w);
    return epoll_pwait(fd, &event, 1, -1, &set) == 1;
}
static int pwait2(struct waiter *w, long ms)
{
    struct epoll_event event;
    struct timespec t = timespec_of(ms);
    int fd = epoll_of(w);
    ready(w);
    int n = (int)syscall(441, fd, &event, 1, &t, NULL, 0);
    return n >= 0 || errno != ENOSYS ? n : epoll_wait(fd, &event, 1, (int)ms);
}
static int in_epoll_pwait2(struct waiter *w) { return pwait2(w, HOUR * 1000) == 1; }
static int in_epoll_pwait2_timeout(struct waiter *w) { return pwait2(w, span_ms) == 0; }
static int in_epoll_timeout(struct waiter *w)
{
    struct epoll_event event;
    int fd = epoll_of(w);
    ready(w);
    return epoll_wait(fd, &event, 1, (int)span_ms) == 0;
}
static int in_poll(struct waiter *w)
{
    make_pipe(w);
    struct pollfd one = {w->a, POLLIN, 0};
    ready(w);
    return poll(&one, 1, -1) == 1;
}
static int in_ppoll(struct waiter *w)
{
    make_pipe(w);
    struct pollfd one = {w->a, POLLIN, 0};
    struct timespec t = timespec_of(HOUR * 1000);
    sigset_t set;
    sigfillset(&set);
    ready(w);
    return ppoll(&one, 1, &t, &set) == 1;
}
static int in_poll_timeout(struct waiter *w)
{
    ready(w);
    return poll(NULL, 0, (int)span_ms) == 0;
}
static int in_ppoll_timeout(struct waiter *w)
{
    struct timespec t = timespec_of(span_ms);
    ready(w);
    return ppoll(NULL, 0, &t, NULL) == 0;
}
static int in_select(struct waiter *w)
{
    fd_set set;
    make_pipe(w);
    FD_ZERO(&set);
    FD_SET(w->a, &set);
    ready(w);
    return select(w->a + 1, &set, NULL, NULL, NULL) == 1;
}
static int in_pselect(struct waiter *w)
{
    fd_set set;
    sigset_t mask;
    struct timespec t = timespec_of(HOUR * 1000);
    sigfillset(&mask), make_pipe(w);
    FD_ZERO(&set);
    FD_SET(w->a, &set);
    ready(w);
    return pselect(w->a + 1, &set, NULL, NULL, &t, &mask) == 1;
}
static int in_select_timeout(struct waiter *w)
{
    struct timeval t = {span_ms / 1000, span_ms % 1000 * 1000};
    ready(w);
    return select(0, NULL, NULL, NULL, &t) == 0;
}
static int in_pselect_timeout(struct waiter *w)
{
    struct timespec t = timespec_of(span_ms);
    ready(w);
    return pselect(0, NULL, NULL, NULL, &t, NULL) == 0;
}

// -- Queues and semaphores --------------------------------------------------------------------------------------------

static mqd_t queue(struct waiter *w)
{
    char name[64];
    struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof name, "/%s.%d", w->call->name, getpid());
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &one);
    CHECK(q != (mqd_t)-1 && mq_unlink(name) == 0);
    return w->a = q;
}
static int in_mq_receive(struct waiter *w)
{
    char text[8];
    mqd_t q = queue(w);
    ready(w);
    return mq_receive(q, text, sizeof text, NULL) == 1;
}
static int in_mq_timedreceive(struct waiter *w)
{
    char text[8];
    struct timespec t = at(CLOCK_REALTIME, HOUR * 1000);
    mqd_t q = queue(w);
    ready(w);
    return mq_timedreceive(q, text, sizeof text, NULL, &t) == 1;
}
static void wake_mq_receive(struct waiter *w) { CHECK(mq_send(w->a, "x", 1, 0) == 0); }
static int in_mq_timeout(struct waiter *w)
{
    char text[8];
    struct timespec t = at(CLOCK_REALTIME, span_ms);
    mqd_t q = queue(w);
    ready(w);
    return mq_timedreceive(q, text, sizeof text, NULL, &t) == -1 && errno == ETIMEDOUT;
}
static int in_mq_send(struct waiter *w)
{
    mqd_t q = queue(w);
    CHECK(mq_send(q, "x", 1, 0) == 0);
    ready(w);
    return mq_send(q, "y", 1, 0) == 0;
}
static void wake_mq_send(struct waiter *w)
{
    char text[8];
    CHECK(mq_receive(w->a, text, sizeof text, NULL) == 1);
}
struct letter {
    long kind;
    char text[8];
};
// Gone with their last user or at the end of main.
static int message_queue(struct waiter *w)
{
    CHECK((w->a = msgget(IPC_PRIVATE, 0600)) >= 0);
    return w->a;
}
static int in_msgrcv(struct waiter *w)
{
    struct letter letter;
    int q = message_queue(w);
    ready(w);
    int n = (int)msgrcv(q, &letter, sizeof letter.text, 0, 0);
    msgctl(q, IPC_RMID, NULL);
    return n == 8;
}
static void wake_msgrcv(struct waiter *w)
{
    struct letter letter = {1, "letter"};
    CHECK(msgsnd(w->a, &letter, sizeof letter.text, 0) == 0);
}
static int in_msgsnd(struct waiter *w)
{
    struct letter letter = {1, "letter"};
    int q = message_queue(w);
    while (msgsnd(q, &letter, sizeof letter.text, IPC_NOWAIT) == 0)
        ;
    ready(w);
    int sent = msgsnd(q, &letter, sizeof letter.text, 0) == 0;
    msgctl(q, IPC_RMID, NULL);
    return sent;
}
static void wake_msgsnd(struct waiter *w)
{
    struct letter letter;
    CHECK(msgrcv(w->a, &letter, sizeof letter.text, 0, 0) == 8);
}
static int semaphore_down(struct waiter *w, int timed, long ms)
{
    struct sembuf down = {0, -1, 0};
    struct timespec t = timespec_of(ms);
    CHECK((w->a = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    ready(w);
    int result = timed ? semtimedop(w->a, &down, 1, &t) : semop(w->a, &down, 1), error = errno;
    semctl(w->a, 0, IPC_RMID);
    errno = error;
    return result;
}
static int in_semop(struct waiter *w) { return semaphore_down(w, 0, 0) == 0; }
static int in_semtimedop(struct waiter *w) { return semaphore_down(w, 1, HOUR * 1000) == 0; }
static int in_semtimedop_timeout(struct waiter *w) { return semaphore_down(w, 1, span_ms) == -1 && errno == EAGAIN; }
static void wake_semop(struct waiter *w)
{
    struct sembuf up = {0, 1, 0};
    CHECK(semop(w->a, &up, 1) == 0);
}

// -- Asynchronous input and output ------------------------------------------------------------------------------------

static int io_events(struct waiter *w, int with_mask, long ms)
{
    struct io_event event;
    struct timespec t = timespec_of(ms);
    aio_context_t context = 0;
    CHECK(syscall(SYS_io_setup, 4, &context) == 0);
    w->number = (long)context;
    ready(w);
    return (int)(with_mask ? syscall(SYS_io_pgetevents, context, 1, 1, &event, &t, NULL)
                           : syscall(SYS_io_getevents, context, 1, 1, &event, ms ? &t : NULL));
}
static int in_io_getevents(struct waiter *w) { return io_events(w, 0, 0) == 1; }
static int in_io_pgetevents(struct waiter *w) { return io_events(w, 1, HOUR * 1000) == 1; }
static int in_io_timeout(struct waiter *w) { return io_events(w, 0, span_ms) == 0; }
static void wake_io(struct waiter *w)
{
    static char page[512];
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)page, .aio_nbytes = sizeof page};
    struct iocb *all[] = {&one};
    one.aio_fildes = (uint32_t)open("/proc/self/exe", O_RDONLY);
    CHECK(syscall(SYS_io_submit, w->number, 1, all) == 1);
}
static int in_io_uring(struct waiter *w)
{
    struct io_uring_params params = {0};
    w->a = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (w->a < 0) {
        // Switched off on many machines.
        in_read(w);
        return 1;
    }
    size_t rings = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    char *ring = mmap(NULL, rings, PROT_READ | PROT_WRITE, MAP_SHARED, w->a, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED,
                                        w->a, IORING_OFF_SQES);
    CHECK(ring != MAP_FAILED && entries != MAP_FAILED);
    memset(entries, 0, sizeof *entries);
    entries->opcode = IORING_OP_NOP;
    w->memory = ring + params.sq_off.tail;
    w->number = w->a;
    *(unsigned *)(ring + params.sq_off.array) = 0;
    ready(w);
    return syscall(SYS_io_uring_enter, w->a, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0;
}
static void wake_io_uring(struct waiter *w)
{
    if (w->memory == NULL)
        return byte_to(w->b);
    __atomic_store_n((unsigned *)w->memory, 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, (int)w->number, 1, 0, 0, NULL, 0) == 1);
}

// -- Time and signals -------------------------------------------------------------------------------------------------

static int in_nanosleep(struct waiter *w)
{
    struct timespec t = timespec_of(span_ms);
    ready(w);
    return nanosleep(&t, NULL) == 0;
}
static int in_clock_nanosleep(struct waiter *w)
{
    struct timespec t = timespec_of(span_ms);
    ready(w);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == 0;
}
static int in_clock_nanosleep_until(struct waiter *w)
{
    struct timespec t = at(CLOCK_REALTIME, span_ms);
    ready(w);
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == 0;
}
static int in_usleep(struct waiter *w)
{
    ready(w);
    return usleep((useconds_t)span_ms * 1000) == 0;
}
static int in_pause(struct waiter *w)
{
    ready(w);
    return pause() == -1 && errno == EINTR && handled == SIGUSR1;
}
static void wake_pause(struct waiter *w) { CHECK(tgkill(getpid(), w->tid, SIGUSR1) == 0); }
static int in_sigsuspend(struct waiter *w)
{
    sigset_t set;
    sigfillset(&set), sigdelset(&set, SIGUSR2);
    ready(w);
    return sigsuspend(&set) == -1 && errno == EINTR;
}
static void wake_sigsuspend(struct waiter *w) { CHECK(tgkill(getpid(), w->tid, SIGUSR2) == 0); }
// A handler runs: this one must come back with EINTR.
static int in_handled(struct waiter *w)
{
    struct epoll_event event;
    int fd = epoll_of(w);
    ready(w);
    return epoll_wait(fd, &event, 1, -1) == -1 && errno == EINTR;
}
static int signal_wait(struct waiter *w, long ms)
{
    sigset_t set;
    struct timespec t = timespec_of(ms);
    sigemptyset(&set), sigaddset(&set, SIGRTMIN + 4);
    ready(w);
    return ms ? sigtimedwait(&set, NULL, &t) : sigwaitinfo(&set, NULL);
}
static int in_sigwaitinfo(struct waiter *w) { return signal_wait(w, 0) == SIGRTMIN + 4; }
static int in_sigtimedwait(struct waiter *w) { return signal_wait(w, HOUR * 1000) == SIGRTMIN + 4; }
static int in_sigtimedwait_timeout(struct waiter *w) { return signal_wait(w, span_ms) == -1 && errno == EAGAIN; }
static void wake_signal_wait(struct waiter *w) { CHECK(tgkill(getpid(), w->tid, SIGRTMIN + 4) == 0); }

static const struct call calls[] = {
    {"read", in_read, wake_by_byte, 0},
    {"readv", in_readv, wake_by_byte, 0},
    {"write", in_write, wake_by_drain, 0},
    {"writev", in_writev, wake_by_drain, 0},
    {"long-write", in_long_write, wake_long_write, 1},
    {"recv-all", in_recv_all, wake_by_byte, 1},
    {"splice", in_splice, wake_by_byte, 0},
    {"tee", in_tee, wake_by_byte, 0},
    {"sendfile", in_sendfile, wake_by_drain, 0},
    {"eventfd", in_eventfd, wake_eventfd, 0},
    {"timerfd", in_timerfd, wake_timerfd, 0},
    {"signalfd", in_signalfd, wake_signalfd, 0},
    {"inotify", in_inotify, wake_inotify, 0},
    {"open", in_open, wake_open, 0},
    {"terminal", in_terminal, wake_terminal, 0},
    {"waitpid", in_waitpid, wake_by_byte, 0},
    {"waitid", in_waitid, wake_by_byte, 0},
    {"flock", in_flock, wake_flock, 0},
    {"fcntl", in_fcntl, wake_by_byte, 0},
    {"ofd-lock", in_ofd_lock, wake_ofd_lock, 0},
    {"futex", in_futex, wake_futex, 0},
    {"futex-timed", in_futex_timed, wake_futex, 0},
    {"futex-timeout", in_futex_relative, NULL, 0},
    {"futex-waitv", in_futex_waitv, wake_futex_waitv, 0},
    {"sem-wait", in_sem_wait, wake_sem_wait, 0},
    {"sem-timedwait", in_sem_timedwait, wake_sem_timedwait, 0},
    {"sem-timeout", in_sem_timeout, NULL, 0},
    {"mutex", in_mutex, wake_mutex, 0},
    {"cond-wait", in_cond_wait, wake_cond_wait, 0},
    {"join", in_join, wake_by_byte, 0},
    {"recv", in_recv, wake_by_byte, 0},
    {"recvmsg", in_recvmsg, wake_by_byte, 0},
    {"recvmmsg", in_recvmmsg, wake_by_byte, 0},
    {"recv-limited", in_recv_limited, wake_by_byte, 0},
    {"recvmsg-limited", in_recvmsg_limited, wake_by_byte, 0},
    {"recvmmsg-limited", in_recvmmsg_limited, wake_by_byte, 0},
    {"read-limited", in_read_limited, wake_by_byte, 0},
    {"recv-timeout", in_recv_timeout, NULL, 0},
    {"send", in_send, wake_by_drain, 0},
    {"send-limited", in_send_limited, wake_by_drain, 0},
    {"sendmsg-limited", in_sendmsg_limited, wake_by_drain, 0},
    {"sendmmsg-limited", in_sendmmsg_limited, wake_by_drain, 0},
    {"write-limited", in_write_limited, wake_by_drain, 0},
    {"accept", in_accept, wake_accept, 0},
    {"accept-limited", in_accept_limited, wake_accept, 0},
    {"accept-timeout", in_accept_timeout, NULL, 0},
    {"connect", in_connect, wake_connect, 0},
    {"connect-limited", in_connect_limited, wake_connect, 0},
    {"epoll-wait", in_epoll_wait, wake_by_byte, 0},
    {"epoll-wait-long", in_epoll_wait_long, wake_by_byte, 0},
    {"epoll-pwait", in_epoll_pwait, wake_by_byte, 0},
    {"epoll-pwait2", in_epoll_pwait2, wake_by_byte, 0},
    {"epoll-timeout", in_epoll_timeout, NULL, 0},
    {"epoll-pwait2-timeout", in_epoll_pwait2_timeout, NULL, 0},
    {"poll", in_poll, wake_by_byte, 0},
    {"ppoll", in_ppoll, wake_by_byte, 0},
    {"poll-timeout", in_poll_timeout, NULL, 0},
    {"ppoll-timeout", in_ppoll_timeout, NULL, 0},
    {"select", in_select, wake_by_byte, 0},
    {"pselect", in_pselect, wake_by_byte, 0},
    {"select-timeout", in_select_timeout, NULL, 0},
    {"pselect-timeout", in_pselect_timeout, NULL, 0},
    {"mq-receive", in_mq_receive, wake_mq_receive, 0},
    {"mq-timedreceive", in_mq_timedreceive, wake_mq_receive, 0},
    {"mq-timeout", in_mq_timeout, NULL, 0},
    {"mq-send", in_mq_send, wake_mq_send, 0},
    {"msgrcv", in_msgrcv, wake_msgrcv, 0},
    {"msgsnd", in_msgsnd, wake_msgsnd, 0},
    {"semop", in_semop, wake_semop, 0},
    {"semtimedop", in_semtimedop, wake_semop, 0},
    {"semtimedop-timeout", in_semtimedop_timeout, NULL, 0},
    {"io-getevents", in_io_getevents, wake_io, 0},
    {"io-pgetevents", in_io_pgetevents, wake_io, 0},
    {"io-timeout", in_io_timeout, NULL, 0},
    {"io-uring", in_io_uring, wake_io_uring, 0},
    {"nanosleep", in_nanosleep, NULL, 0},
    {"clock-nanosleep", in_clock_nanosleep, NULL, 0},
    {"clock-nanosleep-until", in_clock_nanosleep_until, NULL, 0},
    {"usleep", in_usleep, NULL, 0},
    {"pause", in_pause, wake_pause, 0},
    {"sigsuspend", in_sigsuspend, wake_sigsuspend, 0},
    {"handled", in_handled, wake_pause, 0},
    {"sigwaitinfo", in_sigwaitinfo, wake_signal_wait, 0},
    {"sigtimedwait", in_sigtimedwait, wake_signal_wait, 0},
    {"sigtimedwait-timeout", in_sigtimedwait_timeout, NULL, 0},
};
enum { CALLS = sizeof calls / sizeof calls[0] };
static struct waiter waiters[CALLS];

static void *work(void *arg)
{
    struct waiter *w = arg;
    pthread_setname_np(pthread_self(), w->call->wake ? "waits" : "times");
    double began = now_ms();
    errno = 0;
    int good = w->call->wait(w), error = errno;
    // Clocks of the kernel that tick slower than ours may end a tick early.
    int in_time = w->call->wake ? released : now_ms() - began >= span_ms - 20;
    if (!good || !in_time)
        fprintf(stderr, "FAIL %s: %s%s\n", w->call->name, in_time ? "" : "early, ", good ? "as it should" : strerror(error));
    return (void *)(uintptr_t)(good && in_time);
}

// Whether a thread sleeps in the kernel, or has ended.
static int sleeps(int tid)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 1; // its time was over before we looked; whether too early it says itself
    text[n] = 0;
    const char *end = strrchr(text, ')');
    return end != NULL && (end[2] == 'S' || end[2] == 'D');
}

CALL_SITE void *asleep_block(void) { return opaque(malloc(321)); }

int main(int argc, char **argv)
{
    int whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    span_ms = arg_number(argc, argv, 2, 300);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, on_signal), signal(SIGUSR2, on_signal);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGRTMIN + 3), sigaddset(&set, SIGRTMIN + 4);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && mkdtemp(directory) != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(sem_init(&sems[i], 0, 0) == 0);
    pthread_mutex_lock(&mutex);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    char *block = asleep_block();
    memset(block, 1, 321);
    int count = 0;
    for (int i = 0; i < CALLS; i++) {
        if (calls[i].is_partial && !whole)
            continue;
        waiters[i].call = &calls[i];
        CHECK(pthread_create(&waiters[i].thread, &small, work, &waiters[i]) == 0);
        // One after the other: children must not inherit what another one is about to close.
        while (waiters[i].tid == 0)
            usleep(200);
        count++;
    }
    for (int i = 0; i < CALLS; i++)
        for (int tries = 0; waiters[i].call && !sleeps(waiters[i].tid) && tries < 20000; tries++)
            usleep(1000);
    printf("%d asleep\n", count), fflush(stdout);
    char c;
    while (read(0, &c, 1) > 0)
        ;
    released = 1;
    for (int i = 0; i < CALLS; i++)
        if (waiters[i].call && calls[i].wake)
            calls[i].wake(&waiters[i]);
    int failed = 0;
    for (int i = 0; i < CALLS; i++) {
        void *good = NULL;
        if (waiters[i].call) {
            CHECK(pthread_join(waiters[i].thread, &good) == 0);
            failed += good == NULL;
        }
    }
    char remove[128];
    snprintf(remove, sizeof remove, "rm -rf %s", directory);
    CHECK(system(remove) == 0);
    printf("%d ended early or wrongly\n", failed);
    return failed != 0;
}
