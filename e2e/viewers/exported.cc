// What is exported to viewers: a leak, a spike, and blocks that are freed at once, in functions with names that viewers could trip over.
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

struct Node {
    std::string name;
    Node *next;
};
static Node *list;

__attribute__((noinline)) static void leak(int count) {
    for (int i = 0; i < count; i++) {
        list = new Node{std::string(40 + i % 7, 'x'), list};
    }
}

__attribute__((noinline)) static size_t hot(int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        std::vector<int> numbers(10 + i % 5);
        numbers[0] = i;
        sum += numbers[0];
    }
    return sum;
}

__attribute__((noinline)) static void spike() {
    std::vector<char *> all;
    for (int i = 0; i < 1000; i++) {
        all.push_back(static_cast<char *>(malloc(4000)));
    }
    for (char *block : all) {
        free(block);
    }
}

template <int depth> __attribute__((noinline)) static void recurse() {
    if (depth > 0) {
        recurse<(depth > 0 ? depth - 1 : 0)>();
    }
    list = new Node{"", list};
}

int main() {
    leak(500);
    size_t sum = hot(20000);
    spike();
    std::thread other([] {
        leak(100);
        hot(1000);
    });
    other.join();
    recurse<20>();
    // Blocks of no bytes live too.
    for (int i = 0; i < 3; i++) {
        list = new Node{std::string(static_cast<char *>(malloc(0)) ? 30 : 31, 'y'), list};
    }
    return sum == 0;
}
