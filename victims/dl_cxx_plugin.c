// shared: plugin_cxx.cc libplugin_cxx.so -std=c++17
// expect: live fn=plugin_new_leak kind=new count=20 bytes=620
// expect: live fn=plugin_new_leak kind=malloc count=0
// A C program that loads a C++ plugin with RTLD_LOCAL: the preload's operator new is found first, and the real one is in no
// scope that dlsym(RTLD_NEXT) searches.
#include "victim.h"
#include <dlfcn.h>

int main(void)
{
    for (int i = 0; i < 20; i++) {
        void *h = dlopen(beside("libplugin_cxx.so"), RTLD_NOW | RTLD_LOCAL);
        if (h == NULL)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(h != NULL);
        void *(*leak)(size_t) = (void *(*)(size_t))dlsym(h, "plugin_new_leak");
        int (*work)(int) = (int (*)(int))dlsym(h, "plugin_cxx_work");
        CHECK(leak != NULL && work != NULL);
        CHECK(leak(31) != NULL);
        CHECK(work(20) == 1);
        CHECK(dlclose(h) == 0);
    }
    printf("done\n");
    return 0;
}
