/* Two libraries (NUMBER) that are linked with --wrap, each with a copy of the recorder, and (PROGRAM) the program that calls them: linked
   with them, or with their paths as words. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef PROGRAM

#ifdef LINKED
int grow_1(void);
int grow_2(void);
#endif

static void *volatile kept;

__attribute__((noinline)) static void own(void) {
    kept = malloc(777);
    __asm__ volatile("");
}

#ifndef LINKED
static int grow(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*function)(void) = NULL;
    if (library != NULL) *(void **)&function = dlsym(library, name);
    return function != NULL ? function() : -1;
}
#endif

int main(int count, char **words) {
    (void)count;
    (void)words;
    own();
#ifdef LINKED
    printf("states %d %d\n", grow_1(), grow_2());
#else
    {
        int first = grow(words[1], "grow_1"), second = grow(words[2], "grow_2");
        printf("states %d %d\n", first, second);
    }
#endif
    return 0;
}

#else

#include <heapledger.h>

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)

static void *volatile kept;

__attribute__((noinline)) int JOINED(grow_, NUMBER)(void) {
    /* Whose functions nobody else finds is told for itself. */
    if (heapledger_state() == HEAPLEDGER_OFF) heapledger_start(NULL);
    free(malloc(10));
    kept = malloc(1111 * NUMBER);
    kept = realloc(kept, 1111 * NUMBER + 1);
    return heapledger_state();
}

#endif
