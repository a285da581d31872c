// expect: live fn=leak_in_callback kind=malloc count=28 bytes=812
// malloc from callbacks: libc's qsort, bsearch and an atexit handler between main and malloc.
#include "victim.h"

static int made;
CALL_SITE void leak_in_callback(void)
{
    if (made < 28) {
        made++;
        opaque(malloc(29));
    }
}
static int compare(const void *a, const void *b)
{
    leak_in_callback();
    free(opaque(malloc(100)));
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    static int a[5000];
    uint32_t seed = 3;
    for (int i = 0; i < 5000; i++)
        a[i] = next_random(&seed) % 100000;
    qsort(a, 20, sizeof *a, compare);
    qsort(a, 5000, sizeof *a, compare); // large enough for qsort to malloc itself
    for (int i = 1; i < 5000; i++)
        CHECK(a[i - 1] <= a[i]);
    CHECK(bsearch(&a[77], a, 5000, sizeof *a, compare) != NULL);
    printf("sorted, %d\n", made);
    return 0;
}
