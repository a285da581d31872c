/* Opens a library that is linked with --wrap, and closes it: three times. A thread that has been in it ends after that. */

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>

static void *(*grow)(size_t);
static int (*state)(void);
static sem_t has_been_there, is_closed;
static void *volatile kept[6];

static void *visits(void *place) {
    *(void *volatile *)place = grow(50);
    sem_post(&has_been_there);
    sem_wait(&is_closed);
    return NULL;
}

int main(int count, char **words) {
    int round;
    if (count != 2) return 2;
    sem_init(&has_been_there, 0, 0);
    sem_init(&is_closed, 0, 0);
    for (round = 0; round < 3; round++) {
        pthread_t thread;
        void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) return 3;
        *(void **)&grow = dlsym(library, "grow");
        *(void **)&state = dlsym(library, "state");
        if (pthread_create(&thread, NULL, visits, (void *)&kept[2 * round]) != 0) return 4;
        sem_wait(&has_been_there);
        kept[2 * round + 1] = grow(10);
        printf("state %d\n", state());
        if (dlclose(library) != 0) return 5;
        sem_post(&is_closed);
        pthread_join(thread, NULL);
    }
    return 0;
}
