// expect: live fn=main kind=malloc count>=40 bytes>=13000
// expect: allocs fn=churn kind=malloc count=200 bytes=10000
// Functions whose names are markup, or have what other formats use as separators. Reports in HTML, SVG, JSON and lines must not
// be led astray by them.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

static void *volatile kept[40];
static int used;

// The name is quoted for the assembler; it may hold any character but a quote.
__attribute__((noipa)) static void markup(size_t size) __asm__("\"</script><b>x;y&z\"");
static void markup(size_t size)
{
    kept[used++] = malloc(size);
}

template <typename Key, typename Value> struct Table {
    __attribute__((noipa)) static void grow(Key size)
    {
        kept[used++] = malloc(size);
    }
};

extern "C" __attribute__((noipa)) void churn()
{
    for (int i = 0; i < 200; i++) {
        void *volatile block = malloc(50);
        free(block);
    }
}

int main()
{
    for (int i = 0; i < 10; i++)
        markup(1000);
    for (int i = 0; i < 30; i++)
        Table<int, std::map<int, std::string>>::grow(100);
    churn();
    printf("%d blocks\n", used);
    return 0;
}
