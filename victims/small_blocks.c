// also-under: libjemalloc.so.2 libtcmalloc_minimal.so.4
// flags: -pthread
// stress: 20000
// expect: live fn=tiny kind=malloc count=1000
// 200,000 blocks of 1 to 8 bytes (ARG1): jemalloc and tcmalloc put them 8 bytes apart, closer than a 16-byte granule.
#include "victim.h"

CALL_SITE unsigned char *tiny(size_t n) { return (unsigned char *)opaque(malloc(n)); }

static long count;

static void *work(void *arg)
{
    uint32_t seed = 99;
    unsigned char **list = mmap(NULL, count * sizeof *list, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(list != MAP_FAILED);
    for (long i = 0; i < count; i++) {
        size_t n = 1 + i % 8;
        list[i] = tiny(n);
        CHECK(list[i] != NULL);
        memset(list[i], (int)(i * 7 & 0xff), n);
    }
    for (long i = count - 1; i > 0; i--) { // shuffle
        long k = next_random(&seed) % (i + 1);
        unsigned char *p = list[i];
        list[i] = list[k];
        list[k] = p;
    }
    for (long i = 500; i < count; i++) {
        unsigned char first = list[i][0];
        size_t n = malloc_usable_size(list[i]);
        CHECK(n >= 1);
        if (i % 5 == 0) { // grow within or out of the granule
            list[i] = realloc(list[i], 1 + i % 16);
            CHECK(list[i] != NULL && list[i][0] == first);
        }
        free(list[i]);
    }
    return arg;
}

int main(int argc, char **argv)
{
    count = arg_number(argc, argv, 1, 200000) / 2;
    CHECK(count > 500);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, work, NULL) == 0);
    work(NULL);
    CHECK(pthread_join(t, NULL) == 0);
    printf("freed %ld\n", 2 * (count - 500));
    return 0;
}
