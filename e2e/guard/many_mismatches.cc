// Gives so many blocks of new to free, each from a call site of its own, and goes on. With a second argument it ends only when the file
// of this name has a report in it: somebody has printed it while this ran. The third is its status.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

template <int N> __attribute__((noinline, noclone)) void wrong(int number) {
    if (N < number) {
        int *volatile block = new int(N);
        std::free(block);
        std::fprintf(stderr, "wrong %d\n", N);
        wrong<N + 1>(number);
    }
}

template <> void wrong<24>(int) {}

int main(int count, char **words) {
    wrong<0>(count > 1 ? std::atoi(words[1]) : 0);
    const std::string file = count > 2 ? words[2] : "";
    // A minute: then whoever looks sees that there is none.
    for (int look = 0; !file.empty() && look < 6000; look++) {
        std::ifstream text(file);
        if (std::string(std::istreambuf_iterator<char>(text), {}).find("SUMMARY") != std::string::npos) break;
        usleep(10000);
    }
    std::fprintf(stderr, "the program ends\n");
    return count > 3 ? std::atoi(words[3]) : 0;
}
