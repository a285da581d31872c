// shared: frees.c libfrees.so
// flags: -Wl,--enable-new-dtags,-rpath,$ORIGIN
// run: deep
// run: usual
// losses: deep_bound displaced unknown_frees
// expect-run 1: live fn=make kind=malloc count=1 bytes=72
// expect-run 1: live fn=plugin_keep count=0
// expect-run 1: allocs fn=plugin_give count=0
// expect-run 1: foreign count=8
// expect-run 2: live fn=make kind=malloc count=0
// expect-run 2: live fn=plugin_keep kind=malloc count=1 bytes=99
// expect-run 2: allocs fn=plugin_give kind=malloc count=9
// expect-run 2: foreign count=0
// Loads a plugin with RTLD_DEEPBIND, as PHP does with its extensions: it finds the C library's malloc and free before anything
// preloaded, so what it calls is not seen. Blocks that it frees look alive until their addresses are given out again.
// The library is found by the program's RUNPATH, which the loader takes only if it sees that the program itself is asking.
#include "victim.h"
#include <dlfcn.h>

CALL_SITE void *make(void) { return opaque(malloc(72)); }

int main(int argc, char **argv)
{
    int flags = RTLD_NOW | RTLD_LOCAL;
    CHECK(argc == 2);
    if (strcmp(argv[1], "deep") == 0)
        flags |= RTLD_DEEPBIND;
    void *h = dlopen("libfrees.so", flags);
    if (h == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(h != NULL);
    void (*plugin_free)(void *) = (void (*)(void *))dlsym(h, "plugin_free");
    void *(*plugin_give)(size_t) = (void *(*)(size_t))dlsym(h, "plugin_give");
    void (*plugin_keep)(size_t) = (void (*)(size_t))dlsym(h, "plugin_keep");
    CHECK(plugin_free != NULL && plugin_give != NULL && plugin_keep != NULL);
    void *last = NULL;
    for (int i = 0; i < 20; i++) { // each but the first is the one before, given out again
        void *p = make();
        CHECK(last == NULL || p == last);
        plugin_free(p);
        last = p;
    }
    for (int i = 0; i < 8; i++)
        free(plugin_give(200));
    plugin_keep(99);
    printf("done\n");
    return 0;
}
