#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace outer {
namespace {
struct Hidden {
    std::vector<int> numbers;
    int sum() const { return std::accumulate(numbers.begin(), numbers.end(), 0); }
};
__attribute__((noinline)) int anonymous(const Hidden &hidden) { return hidden.sum() + 1; }
} // namespace

template <typename T> struct Box {
    std::unique_ptr<T> value;
    explicit Box(T v) : value(std::make_unique<T>(std::move(v))) {}
    __attribute__((noinline)) const T &get() const { return *value; }
};

class Shape {
public:
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

class Square : public Shape {
    double side;
public:
    explicit Square(double s) : side(s) {}
    ~Square() override { std::puts("gone"); }
    double area() const override { return side * side; }
};

__attribute__((noinline)) double total(const std::vector<std::unique_ptr<Shape>> &shapes) {
    double all = 0;
    for (const auto &shape : shapes) all += shape->area();
    return all;
}
} // namespace outer

static __attribute__((noinline)) std::map<std::string, int> count(const std::vector<std::string> &words) {
    std::map<std::string, int> counts;
    for (const auto &word : words) ++counts[word];
    return counts;
}

extern "C" __attribute__((noinline)) int plain_c(int n) { return n * 7; }

static __attribute__((noinline, cold)) void fail(const char *why) {
    throw std::runtime_error(why);
}

int main(int argc, char **argv) {
    std::vector<std::string> words(argv, argv + argc);
    std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b) { return a.size() < b.size(); });
    auto counts = count(words);
    outer::Hidden hidden{{1, 2, argc}};
    outer::Box<std::string> box("text");
    std::vector<std::unique_ptr<outer::Shape>> shapes;
    shapes.push_back(std::make_unique<outer::Square>(argc));
    std::unordered_map<std::string, std::function<int(int)>> calls;
    calls["one"] = [&](int n) { return n + argc; };
    calls["two"] = plain_c;
    std::ostringstream text;
    for (auto &[name, call] : calls) text << name << call(outer::anonymous(hidden));
    if (argc > 50) fail("too many");
    std::printf("%zu %s %s %f\n", counts.size(), box.get().c_str(), text.str().c_str(), outer::total(shapes));
    return 0;
}
