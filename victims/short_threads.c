// flags: -pthread
// run:
// run: 300 1
// stress: 300 1
// stress: 400 8
// Many threads that live for a moment, in batches. ARG1 threads (default 2000; the harness uses 100000 and watches
// the memory), ARG2 threads at a time (default 8). ARG3 times on the way (default 0) it is held, to be looked at.
#include "victim.h"

static long total;

static void *work(void *arg)
{
    char *p[10];
    for (int i = 0; i < 10; i++) {
        p[i] = opaque(malloc(20 + i));
        p[i][0] = i;
    }
    for (int i = 0; i < 9; i++)
        free(p[i]);
    __atomic_add_fetch(&total, 10, __ATOMIC_RELAXED);
    (void)arg;
    return p[9]; // freed by the thread that joins
}

int main(int argc, char **argv)
{
    long count = arg_number(argc, argv, 1, 2000), batch = arg_number(argc, argv, 2, 8);
    long holds = arg_number(argc, argv, 3, 0), held = 0;
    CHECK(batch >= 1 && batch <= 64);
    for (long done = 0; done < count;) {
        pthread_t t[64];
        long n = count - done < batch ? count - done : batch;
        for (long i = 0; i < n; i++)
            CHECK(pthread_create(&t[i], NULL, work, NULL) == 0);
        for (long i = 0; i < n; i++) {
            void *p;
            CHECK(pthread_join(t[i], &p) == 0);
            free(p);
        }
        done += n;
        if (held < holds && done >= count / holds * (held + 1)) {
            held++;
            hold();
        }
    }
    printf("allocated %ld\n", total);
    CHECK(total == count * 10);
    return 0;
}
