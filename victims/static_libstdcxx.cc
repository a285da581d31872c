// flags: -static-libstdc++ -static-libgcc -pthread
// expect: live fn=leak_static_new kind=malloc count=9 bytes=387
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// libstdc++ and the unwinder linked in: operator new lies in the executable, only its malloc is seen; exceptions still pass.
#include "later_blocks.h"
#include <new>
#include <string>
#include <thread>
#include <vector>

void *volatile kept[9];
CALL_SITE void leak_static_new(void)
{
    for (int i = 0; i < 9; i++)
        kept[i] = opaque(operator new(43));
}

int main()
{
    int caught = 0;
    for (int i = 0; i < 100; i++)
        try {
            std::vector<std::string> v(10, std::string(60, 's'));
            opaque(operator new(opaque_size(PTRDIFF_MAX / 2)));
        } catch (const std::bad_alloc &) {
            caught++;
        }
    std::thread t([] { leak_static_new(); });
    t.join();
    later_blocks();
    printf("caught %d\n", caught);
}
