// flags: -pthread
// expect: live fn=leak_in_destructor kind=malloc count=8 bytes=392
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Thread-local objects that allocate when they are made and when they are destroyed, after other thread data is gone.
#include "later_blocks.h"
#include <string>
#include <thread>
#include <vector>

void *volatile kept[8];
static int ended;

CALL_SITE void leak_in_destructor(int i) { kept[i] = opaque(malloc(49)); }

struct Noisy {
    std::vector<std::string> words;
    int id = -1;
    Noisy()
    {
        for (int i = 0; i < 50; i++)
            words.push_back(std::string(100 + i, 'x'));
    }
    ~Noisy()
    {
        std::string last;
        for (auto &w : words)
            last += w;
        CHECK(last.size() == 50 * 100 + 49 * 50 / 2);
        void *p = malloc(1000);
        free(opaque(p));
        if (id >= 0) {
            leak_in_destructor(id);
            __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
        }
    }
};
thread_local Noisy first;
thread_local Noisy second;

int main()
{
    for (int round = 0; round < 2; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([i, round] {
                first.id = round * 4 + i;
                second.words.push_back("");
            });
        for (auto &t : threads)
            t.join();
    }
    CHECK(ended == 8);
    first.words.push_back(""); // the main thread's object dies in exit()
    later_blocks();
    printf("ended %d\n", ended);
}
