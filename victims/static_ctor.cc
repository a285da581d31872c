// expect: live fn=leak_in_constructor kind=new count=3 bytes=120
// expect: live fn=leak_in_preinit kind=malloc count=2 bytes=38
// Allocation before main: .preinit_array, constructors with priorities, static objects; and after it, in their destructors.
#include "victim.h"
#include <string>
#include <vector>

void *volatile kept[5];
CALL_SITE void leak_in_constructor(int i) { kept[i] = opaque(operator new(40)); }
CALL_SITE void leak_in_preinit(void)
{
    for (int i = 0; i < 2; i++)
        kept[3 + i] = opaque(malloc(19));
}

static void preinit(int, char **, char **) { leak_in_preinit(); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **, char **) = preinit;

struct Early {
    std::vector<std::string> list;
    explicit Early(int i)
    {
        leak_in_constructor(i);
        for (int k = 0; k < 10; k++)
            list.push_back(std::string(100, 'e'));
    }
    ~Early() { list.clear(); }
};
__attribute__((init_priority(200))) static Early first(0);
__attribute__((init_priority(300))) static Early second(1);
static Early third(2);

int main() { printf("lists %zu %zu %zu\n", first.list.size(), second.list.size(), third.list.size()); }
