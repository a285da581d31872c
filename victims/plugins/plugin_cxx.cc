// A C++ plugin for a C program: libstdc++ comes with it, behind the tracker, and is not in the global scope.
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" __attribute__((noipa)) void *plugin_new_leak(unsigned long n) { return operator new(n); }
extern "C" __attribute__((noipa)) int plugin_cxx_work(int n)
{
    std::vector<std::string> v;
    for (int i = 0; i < n; i++)
        v.push_back(std::string(50 + i, 'p'));
    int caught = 0;
    try {
        throw std::runtime_error(v[n / 2]);
    } catch (const std::exception &e) {
        caught = e.what()[0] == 'p';
    }
    return caught;
}
