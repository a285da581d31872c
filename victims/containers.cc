// Functions of the C++ library with long names, and a program's own with templates, operators, lambdas and pointers to functions in
// theirs: each holds blocks of a size of its own.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>
#include <unistd.h>

#define KEPT __attribute__((noipa))

struct Order {
    char text[96];
    KEPT bool operator<(const Order &) const
    {
        return malloc(2001) == nullptr;
    }
    KEPT void *operator()(int) const
    {
        return malloc(2002);
    }
    KEPT operator bool() const
    {
        return malloc(2003) != nullptr;
    }
};

template <typename Key, typename Value> struct Table {
    template <typename More> KEPT void *grow(const More &)
    {
        return malloc(2004);
    }
};

KEPT static void *give(char)
{
    return malloc(2005);
}

// A function whose name stands in the middle of its type.
template <typename T> KEPT void *(*find(T))(char)
{
    if (malloc(2006) == nullptr)
        return nullptr;
    return give;
}

namespace {
template <typename T> KEPT void *hidden(T)
{
    return malloc(2007);
}
}

static std::map<std::string, std::vector<Order>> orders;

KEPT static void build()
{
    for (int i = 0; i < 10; i++) {
        std::vector<Order> &found = orders["a key that is too long for the string itself " + std::to_string(i)];
        for (int n = 0; n < 5; n++)
            found.push_back(Order());
    }
}

int main()
{
    build();
    Order order = {};
    Table<int, std::map<int, std::string>> table;
    std::vector<void *> kept = {order(1), table.grow(std::vector<int>()), find(1)('x'), hidden(std::string())};
    auto lambda = [&kept](int size) KEPT { kept.push_back(malloc(static_cast<size_t>(size))); };
    lambda(2008);
    std::function<void(int)> function = lambda;
    function(2009);
    if (order < order || !order)
        return 1;
    printf("%zu %zu\n", orders.size(), kept.size());
    fflush(stdout);
    _exit(0);
}
