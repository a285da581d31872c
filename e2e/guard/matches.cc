// What `mismatches.cc` does wrong, done right, and what looks wrong and is not: nothing is to be reported.
#include "../../victims/victim.h"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

EXTERN_C void free_sized(void *block, size_t bytes) __attribute__((weak));
EXTERN_C void free_aligned_sized(void *block, size_t alignment, size_t bytes) __attribute__((weak));
static const std::align_val_t PAGE = std::align_val_t(4096);

struct Base {
    virtual ~Base() {}
    long one;
};
struct Derived : Base {
    ~Derived() { delete[] more; }
    int *more = new int[7];
    std::string text = "a text that is too long to be kept inside";
};
struct Own {
    char bytes[48];
    static void *operator new(size_t bytes) { return malloc(bytes); }
    static void operator delete(void *block) { free(block); }
};
struct Later {
    size_t count;
    static Later *make(size_t count) { return new (operator new(sizeof(Later) + count)) Later{count}; }
    static void end(Later *later)
    {
        later->~Later();
        operator delete(later);
    }
};
struct alignas(64) Wide {
    char bytes[64];
    ~Wide() { bytes[0] = 1; }
};
struct Throws {
    std::string text = "another text that is too long for that";
    Throws() { throw std::runtime_error("no object, and its memory goes back"); }
};

CALL_SITE void c()
{
    free(opaque(malloc(10)));
    free(opaque(calloc(10, 10)));
    free(opaque(aligned_alloc(64, 128)));
    free(opaque(memalign(64, 100)));
    free(opaque(valloc(100)));
    free(opaque(pvalloc(100)));
    void *block = NULL;
    CHECK(posix_memalign(&block, 128, 100) == 0);
    free(opaque(realloc(opaque(block), 1000)));
    free(opaque(strdup("a string of libc's")));
    block = opaque(realloc(NULL, 10));
    block = opaque(reallocarray(opaque(block), 10, 100));
    free(block);
    free(NULL);
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL && getline(&line, &room, file) > 0);
    fclose(file);
    free(line);
    if (free_sized != NULL && free_aligned_sized != NULL) {
        free_sized(opaque(malloc(10)), 10);
        free_sized(opaque(calloc(10, 10)), 100);
        free_sized(opaque(realloc(opaque(malloc(10)), 20)), 20);
        free_sized(NULL, 10);
        free_aligned_sized(opaque(aligned_alloc(64, 128)), 64, 128);
    }
}

CALL_SITE void operators()
{
    operator delete(opaque(operator new(10)));
    operator delete(opaque(operator new(10)), (size_t)10);
    operator delete(opaque(operator new(10)), std::nothrow);
    operator delete(opaque(operator new(10, std::nothrow)));
    operator delete[](opaque(operator new[](10)));
    operator delete[](opaque(operator new[](10)), (size_t)10);
    operator delete[](opaque(operator new[](10, std::nothrow)), std::nothrow);
    operator delete(opaque(operator new(10, PAGE)), PAGE);
    operator delete(opaque(operator new(10, PAGE)), (size_t)10, PAGE);
    operator delete(opaque(operator new(10, PAGE, std::nothrow)), PAGE, std::nothrow);
    operator delete[](opaque(operator new[](10, PAGE)), PAGE);
    operator delete[](opaque(operator new[](10, PAGE)), (size_t)10, PAGE);
    operator delete(opaque(operator new((size_t)5 << 30)), (size_t)5 << 30);
    operator delete(opaque(operator new(0)), (size_t)0);
    operator delete(NULL, (size_t)10);
}

CALL_SITE void objects()
{
    Base *base = new Derived();
    opaque(base);
    delete base;
    delete (Own *)opaque(new Own());
    Later::end((Later *)opaque(Later::make(100)));
    std::string *texts = new std::string[20];
    opaque(texts);
    delete[] texts;
    Wide *wide = new Wide();
    opaque(wide);
    delete wide;
    wide = new Wide[3];
    opaque(wide);
    delete[] wide;
    std::vector<Wide> wides(10);
    wides.resize(100);
    std::unique_ptr<int[]> array(new int[100]);
    std::shared_ptr<std::string> shared = std::make_shared<std::string>(100, 'x');
    std::function<size_t()> function = [shared, wides] { return shared->size() + wides.size(); };
    CHECK(function() == 200);
    try {
        opaque(new Throws());
        CHECK(false);
    } catch (const std::runtime_error &) {
    }
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 1000; i++) {
        map[std::to_string(i * 7919)].assign((size_t)i, i);
    }
    std::vector<std::string> sorted;
    for (auto &pair : map) {
        sorted.push_back(pair.first);
    }
    std::stable_sort(sorted.begin(), sorted.end(), std::greater<std::string>());
    auto buffer = std::get_temporary_buffer<long>(1000);
    std::return_temporary_buffer(buffer.first);
}

int main()
{
    c();
    operators();
    objects();
    std::thread other([] {
        c();
        operators();
        objects();
    });
    other.join();
    return 0;
}
