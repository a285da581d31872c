#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A spike: a megabyte for each part of a report, all of them at once; then none. */
__attribute__((noinline)) static char *load(int part) {
    return memset(malloc(1 << 20), part, 1 << 20);
}

__attribute__((noinline)) static int report(void) {
    char *parts[64];
    int sum = 0;
    for (int i = 0; i < 64; i++) parts[i] = load(i);
    for (int i = 0; i < 64; i++) {
        sum += parts[i][i];
        free(parts[i]);
    }
    return sum;
}

int main(void) {
    usleep(100000);
    int sum = report();
    usleep(100000);
    return sum != 63 * 32;
}
