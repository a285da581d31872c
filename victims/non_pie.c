// flags: -no-pie
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// Linked at a fixed low address, where addresses look like small numbers.
#include "linked.h"
