#include <map>
#include <string>
#include <vector>

struct Session { std::string user, basket; };
std::map<int, Session *> sessions;

// A leak: sessions are opened and never closed.
__attribute__((noinline)) void open_session(int user) {
    sessions[user] = new Session{"user " + std::to_string(user), std::string(500, ' ')};
}

// A hot temporary: a line of text for each request, only to look at its length.
__attribute__((noinline)) size_t log_line(int user) {
    return std::string("request of a user with the number " + std::to_string(user)).size();
}

// A spike: the whole report at once.
__attribute__((noinline)) size_t report() {
    std::vector<std::string> lines;
    for (int i = 0; i < 10000; i++) lines.push_back(std::string(1000, '='));
    return lines.size();
}

int main() {
    size_t done = 0;
    for (int request = 0; request < 20000; request++) {
        if (request % 10 == 0) open_session(request);
        done += log_line(request);
        if (request == 12000) done += report();
    }
    return done == 0;
}
