// shared: plugin.c libplugin_a.so -DLETTER=a
// shared: plugin.c libplugin_b.so -DLETTER=b
// expect: live fn=plugin_a_leak kind=malloc count=50 bytes=5050
// expect: live fn=plugin_b_leak kind=malloc count=50 bytes=10100
// Two libraries take turns at (nearly always) the same address. Each pc means another function each time: a stale cached rule,
// call site or module gives one library's blocks to the other.
#include "victim.h"
#include <dlfcn.h>

int main(void)
{
    void *last = NULL;
    int same = 0;
    for (int i = 0; i < 100; i++) {
        void *h = dlopen(beside(i % 2 ? "libplugin_b.so" : "libplugin_a.so"), RTLD_NOW);
        CHECK(h != NULL);
        void *(*leak)(size_t) = (void *(*)(size_t))dlsym(h, i % 2 ? "plugin_b_leak" : "plugin_a_leak");
        CHECK(leak != NULL);
        same += (void *)leak == last;
        last = (void *)leak;
        leak(i % 2 ? 202 : 101);
        CHECK(dlclose(h) == 0);
    }
    // Not printed: where libraries go is the kernel's affair. But if it never happened, nothing was tested.
    CHECK(same > 0);
    printf("took turns\n");
    return 0;
}
