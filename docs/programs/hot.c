#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hot: a block for each word, only to measure it. */
__attribute__((noinline)) static size_t join(const char *left, const char *right) {
    char *both = malloc(strlen(left) + strlen(right) + 1);
    strcpy(both, left);
    strcat(both, right);
    size_t length = strlen(both);
    free(both);
    return length;
}

__attribute__((noinline)) static size_t render(int row) {
    return join("row", row % 2 ? "odd" : "even");
}

int main(void) {
    size_t length = 0;
    for (int row = 0; row < 600000; row++) length += render(row);
    printf("%zu\n", length);
    return 0;
}
