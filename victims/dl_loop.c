// shared: plugin.c libplugin_a.so -DLETTER=a
// flags: -pthread
// stress: 30
// expect: live fn=plugin_a_leak kind=malloc count=200 bytes=3400
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Loads and unloads a library with thread-local data in a loop, while another thread allocates; threads call into it as well.
// ARG1 times (default 200).
#include "later_blocks.h"
#include <dlfcn.h>

static volatile int stop;
static int (*work)(int);

static void *busy(void *arg)
{
    while (!stop)
        free(opaque(malloc(88)));
    return arg;
}
static void *in_thread(void *arg)
{
    CHECK(work(9) == 9);
    return arg;
}

int main(int argc, char **argv)
{
    long times = arg_number(argc, argv, 1, 200);
    pthread_t t, u;
    CHECK(pthread_create(&t, NULL, busy, NULL) == 0);
    for (long i = 0; i < times; i++) {
        void *h = dlopen(beside("libplugin_a.so"), i % 2 ? RTLD_NOW : RTLD_LAZY);
        if (h == NULL)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(h != NULL);
        void *(*leak)(size_t) = (void *(*)(size_t))dlsym(h, "plugin_a_leak");
        work = (int (*)(int))dlsym(h, "plugin_work");
        CHECK(leak != NULL && work != NULL);
        leak(17);
        CHECK(work(7) == 7);
        if (i % 10 == 0) {
            CHECK(pthread_create(&u, NULL, in_thread, NULL) == 0);
            CHECK(pthread_join(u, NULL) == 0);
        }
        CHECK(dlsym(h, "no_such_symbol") == NULL && dlerror() != NULL);
        CHECK(dlclose(h) == 0);
        CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL && dlerror() != NULL);
    }
    stop = 1;
    CHECK(pthread_join(t, NULL) == 0);
    later_blocks();
    printf("loaded %ld times\n", times);
    return 0;
}
