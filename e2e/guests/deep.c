// Opens a library, itself built from this file with -DLIBRARY, with RTLD_DEEPBIND: the library frees blocks of the program's, resizes them
// and gives it others. It is found by the program's RUNPATH, which the loader takes only if it sees that the program itself is asking.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
void take(void *block)
{
    free(block);
}

char *give(size_t bytes)
{
    return strdup(memset(calloc(bytes, 1), 'x', bytes - 1));
}

void *resize(void *block, size_t bytes)
{
    return realloc(block, bytes);
}
#else
#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            return 1; \
        } \
    } while (0)

int main(void)
{
    void *library = dlopen("libdeep.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    // None of these loads anything.
    CHECK(dlopen("libdeep.so", RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND) == library);
    CHECK(dlopen("libnone.so", RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND) == NULL);
    CHECK(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL);
    void (*take)(void *) = (void (*)(void *))dlsym(library, "take");
    char *(*give)(size_t) = (char *(*)(size_t))dlsym(library, "give");
    char *(*resize)(void *, size_t) = (char *(*)(void *, size_t))dlsym(library, "resize");
    CHECK(take != NULL && give != NULL && resize != NULL);
    size_t length = 0;
    for (size_t i = 1; i < 500; i++) {
        take(malloc(i));
        char *text = resize(give(i), i + 10);
        length += strlen(text);
        free(text);
        take(aligned_alloc(64, 64 * i));
    }
    printf("%zu\n", length);
    return 0;
}
#endif
