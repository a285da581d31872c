// A program without the crate, which loads a library that has it and unloads it: so many times, by one thread and then by three at once.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char *path;
static long rounds;

#define CHECK(is) \
    if (!(is)) { \
        fprintf(stderr, "line %d: %s\n", __LINE__, dlerror()); \
        abort(); \
    }

static void *uses(void *arg)
{
    for (long i = 0; i < rounds; i++) {
        void *library = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY);
        CHECK(library != NULL);
        size_t (*works)(size_t) = (size_t(*)(size_t))dlsym(library, "library_works");
        bool (*tells)(void) = (bool (*)(void))dlsym(library, "library_tells");
        CHECK(works(20) == 30);
        CHECK(tells());
        CHECK(dlclose(library) == 0);
    }
    return arg;
}

static int maps(void)
{
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; (c = getc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

static int files(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    rounds = atol(argv[1]);
    path = argv[2];
    uses(NULL);
    int maps_before = maps(), files_before = files();
    uses(NULL);
    CHECK(maps() <= maps_before + 4 && files() <= files_before);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, uses, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%ld\n", rounds * 5);
    return 0;
}
