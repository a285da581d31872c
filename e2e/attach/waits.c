/* Waits in one of the ways in which a program can, tells how that ended, and then allocates so many blocks as are known.
   waits HOW [terminate|become|LIBRARY]: it says "." before it waits; where it does not wait for a time, its input wakes it. In the end a
   signal terminates it, it becomes another program, or it allocates in a library that it opens. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int is_told;

static void *reader(void *nothing)
{
    char byte;
    (void)read(0, &byte, 1);
    pthread_mutex_lock(&lock);
    is_told = 1;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
    sem_post(&semaphore);
    return nothing;
}

static void say(const char *text)
{
    (void)write(1, text, strlen(text));
}

/* Another thread than the main one, which has ended. */
static void *alone(void *nothing)
{
    reader(nothing);
    say("result 0\n");
    exit(0);
}

/* What the call returns: 0 where it is as it would be without anybody. */
static int wait_in(const char *how)
{
    struct timespec span = {3, 0}, began, ended;
    struct pollfd input = {0, POLLIN, 0};
    pthread_t thread;
    char byte;
    int is_timed = strncmp(how, "timed-", 6) == 0, result = -1;
    clock_gettime(CLOCK_MONOTONIC, &began);
    say(".");
    if (strcmp(how, "read") == 0)
        result = read(0, &byte, 1) != 1;
    else if (strcmp(how, "poll") == 0)
        result = poll(&input, 1, -1) != 1;
    else if (strcmp(how, "select") == 0) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(0, &set);
        result = select(1, &set, NULL, NULL, NULL) != 1;
    } else if (strcmp(how, "epoll") == 0) {
        struct epoll_event event = {EPOLLIN, {0}};
        int epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
        result = epoll_wait(epoll, &event, 1, -1) != 1;
    } else if (strcmp(how, "condition") == 0) {
        pthread_create(&thread, NULL, reader, NULL);
        pthread_mutex_lock(&lock);
        while (!is_told)
            pthread_cond_wait(&told, &lock);
        pthread_mutex_unlock(&lock);
        result = 0;
    } else if (strcmp(how, "semaphore") == 0) {
        pthread_create(&thread, NULL, reader, NULL);
        result = sem_wait(&semaphore);
    } else if (strcmp(how, "join") == 0) {
        pthread_create(&thread, NULL, reader, NULL);
        result = pthread_join(thread, NULL);
    } else if (strcmp(how, "alone") == 0) {
        pthread_create(&thread, NULL, alone, NULL);
        pthread_exit(NULL);
    } else if (strcmp(how, "child") == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(read(0, &byte, 1) == 1 ? 7 : 1);
        int status;
        result = waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7;
    } else if (strcmp(how, "busy") == 0) {
        volatile double value = 1;
        while (poll(&input, 1, 0) == 0)
            for (int step = 0; step < 100000; step++)
                value = value * 1.0000001;
        result = 0;
    } else if (strcmp(how, "timed-sleep") == 0)
        result = nanosleep(&span, &span);
    else if (strcmp(how, "timed-poll") == 0)
        result = poll(NULL, 0, 3000);
    else if (strcmp(how, "timed-epoll") == 0) {
        struct epoll_event event;
        result = epoll_wait(epoll_create1(0), &event, 1, 3000);
    } else if (strcmp(how, "timed-select") == 0) {
        struct timeval time = {3, 0};
        result = select(0, NULL, NULL, NULL, &time);
    } else if (strcmp(how, "timed-semaphore") == 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 3;
        result = sem_timedwait(&semaphore, &until) != -1 || errno != ETIMEDOUT;
    }
    if (is_timed) {
        clock_gettime(CLOCK_MONOTONIC, &ended);
        double waited = (ended.tv_sec - began.tv_sec) + (ended.tv_nsec - began.tv_nsec) / 1e9;
        if (waited < 2.999)
            result = 99;
    }
    return result;
}

static __attribute__((noinline)) void *made(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv)
{
    void *before[7];
    for (int index = 0; index < 7; index++)
        before[index] = malloc(50);
    sem_init(&semaphore, 0, 0);
    int result = wait_in(argv[1]);
    for (int index = 0; index < 1000; index++) {
        void *block = made(100);
        if (index % 10 != 0)
            free(block);
    }
    for (int index = 0; index < 7; index++)
        free(before[index]);
    if (argc > 2 && strcmp(argv[2], "terminate") == 0)
        raise(SIGTERM);
    if (argc > 2 && strcmp(argv[2], "become") == 0)
        execlp("sleep", "sleep", "600", (char *)NULL);
    if (argc > 2) {
        void *library = dlopen(argv[2], RTLD_NOW);
        void *(*allocates)(size_t) = library ? (void *(*)(size_t))dlsym(library, "allocates_here") : NULL;
        if (allocates == NULL)
            result = 98;
        else
            for (int index = 0; index < 10; index++)
                allocates(3333);
    }
    char text[40];
    int count = snprintf(text, sizeof text, "result %d\n", result);
    (void)write(1, text, count);
    return 0;
}
