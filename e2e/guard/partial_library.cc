// A library for `partial_main.cc`.
#include <stdlib.h>
#include <string>

extern "C" __attribute__((visibility("default"))) std::string *gives() { return new std::string(100, 'z'); }
extern "C" __attribute__((visibility("default"))) void ends(std::string *text) { delete text; }
