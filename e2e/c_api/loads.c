/* Opens the library that its argument names, and says what that is answered. */

#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = library ? dlsym(library, "of_library") : NULL;
    int (*of_library)(void);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&of_library = found;
    printf("%d\n", of_library());
    return 0;
}
