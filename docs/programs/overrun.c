#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for the name, and not for the zero behind it. */
__attribute__((noinline)) static char *copy_name(const char *name) {
    char *copy = malloc(strlen(name));
    strcpy(copy, name);
    return copy;
}

__attribute__((noinline)) static void finish(char *name) { free(name); }

int main(void) {
    char *name = copy_name("a name of 24 letters ...");
    printf("%s\n", name);
    finish(name);
    return 0;
}
