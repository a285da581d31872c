// flags: -pthread -std=c++17
// stress: 2
// expect: allocs fn=list_work kind=new count=40000
// expect: live fn=list_work count=0
// expect: live fn=keep_nodes kind=new count=80
// expect: live fn=later_blocks kind=malloc count=5 bytes=385
// Threads with standard containers. A std::list makes exactly one node per element, whatever the library's version. Each thread makes
// ARG1 lists (default 10).
#include "later_blocks.h"
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::map<std::string, long> *words = new std::map<std::string, long>;
static std::list<long> *nodes[4];
static long lists;

CALL_SITE long list_work(void)
{
    long sum = 0;
    for (long round = 0; round < lists; round++) {
        std::list<int> l;
        for (int i = 0; i < 1000; i++)
            l.push_back(i);
        for (int i : l)
            sum += i;
    }
    return sum;
}
CALL_SITE void keep_nodes(std::list<long> *l)
{
    for (int i = 0; i < 20; i++)
        l->push_back(i);
}

static void work(int me)
{
    CHECK(list_work() == lists * 999 * 500);
    std::vector<std::unique_ptr<std::string>> v;
    for (int i = 0; i < 2000; i++)
        v.push_back(std::make_unique<std::string>("word number " + std::to_string(i % 97) + " of this thread"));
    for (auto &s : v) {
        std::lock_guard<std::mutex> held(lock);
        ++(*words)[*s];
    }
    keep_nodes(nodes[me]);
}

int main(int argc, char **argv)
{
    lists = arg_number(argc, argv, 1, 10);
    for (auto &n : nodes)
        n = new std::list<long>;
    std::vector<std::thread> t;
    for (int i = 0; i < 4; i++)
        t.emplace_back(work, i);
    for (auto &x : t)
        x.join();
    long sum = 0;
    for (auto &w : *words)
        sum += w.second;
    later_blocks();
    printf("words %zu, %ld\n", words->size(), sum);
    CHECK(words->size() == 97 && sum == 8000);
}
