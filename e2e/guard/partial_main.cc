// A program that replaces some of the operators of C++ and not others, or has a C++ runtime inside: blocks begin at `malloc` and end at
// `delete`, or the other way, and no harm is done. Nothing is to be reported.
#include "../../victims/victim.h"
#include <dlfcn.h>
#include <new>
#include <string>

#ifdef OWN_DELETE
void operator delete(void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
void operator delete[](void *block) noexcept { free(block); }
void operator delete[](void *block, size_t) noexcept { free(block); }
#endif
#ifdef OWN_NEW
void *operator new(size_t bytes) { return malloc(bytes); }
void *operator new[](size_t bytes) { return malloc(bytes); }
#endif

int main(int count, char **words)
{
    delete (std::string *)opaque(new std::string(100, 'x'));
    delete[] (long *)opaque(new long[100]);
    for (int i = 1; i < count; i++) {
        void *library = dlopen(words[i], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        auto gives = (std::string * (*)()) dlsym(library, "gives");
        auto ends = (void (*)(std::string *))dlsym(library, "ends");
        CHECK(gives != NULL && ends != NULL);
        delete (std::string *)opaque(gives());
        ends((std::string *)opaque(new std::string(100, 'y')));
        ends((std::string *)opaque(gives()));
    }
    return 0;
}
