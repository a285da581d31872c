// Eight threads that allocate all the time and look at what they have; ends when its input does, and says whether all was right.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

static std::atomic<bool> ends{false};
static std::atomic<unsigned long> wrong{0};

static void work(unsigned seed)
{
    std::map<unsigned, std::string> texts;
    double value = seed + 1.0;
    unsigned state = seed;
    while (!ends) {
        state = state * 1664525u + 1013904223u;
        unsigned size = state % 500;
        auto found = texts.find(size);
        if (found == texts.end())
            texts[size] = std::string(size + 20, char('a' + seed));
        else {
            wrong += found->second != std::string(size + 20, char('a' + seed));
            texts.erase(found);
        }
        char *block = static_cast<char *>(std::malloc(size + 1));
        std::memset(block, int(size), size + 1);
        block = static_cast<char *>(std::realloc(block, 2 * size + 5));
        for (unsigned at = 0; at <= size; at++)
            wrong += block[at] != char(size);
        std::free(block);
        // Vector registers, which a call that is put in must leave alone.
        double before = value;
        value = value * 1.0000001 + 1e-9;
        wrong += !(value > before);
        if (value > 1e9)
            value = 1.0;
    }
}

int main()
{
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 8; seed++)
        threads.emplace_back(work, seed);
    std::puts(".");
    std::fflush(stdout);
    while (std::getchar() != EOF)
        ;
    ends = true;
    for (auto &thread : threads)
        thread.join();
    std::printf("%lu wrong\n", wrong.load());
    return wrong != 0;
}
