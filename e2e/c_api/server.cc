// A server in C++ that labels what a request allocates, with the functions that are there only under `heapledger run`.

#define HEAPLEDGER_WEAK
#include <heapledger.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

class Labelled {
public:
    Labelled(const char *key, const std::string &value)
        : before_(heapledger_label_set(heapledger_label(heapledger_label_now(), key, value.c_str()))) {}
    ~Labelled() { heapledger_label_set(before_ > 0 ? before_ : 0); }
    Labelled(const Labelled &) = delete;
    Labelled &operator=(const Labelled &) = delete;

private:
    int before_;
};

struct Session {
    char bytes[5555];
};

std::vector<std::unique_ptr<Session>> serves(int requests) {
    std::vector<std::unique_ptr<Session>> sessions;
    for (int request = 0; request < requests; request++) {
        Labelled labelled("route", request % 2 ? "/odd" : "/even");
        sessions.push_back(std::make_unique<Session>());
    }
    return sessions;
}

} // namespace

int main() {
    // They are there when the program has ended.
    auto *kept = new std::vector<std::unique_ptr<Session>>[2];
    std::thread other([kept] { kept[0] = serves(10); });
    kept[1] = serves(20);
    other.join();
    heapledger_mark("served");
    return kept[0].size() + kept[1].size() == 30 ? 0 : 1;
}
