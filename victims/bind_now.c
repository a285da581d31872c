// flags: -Wl,-z,now
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// All symbols bound before main.
#include "linked.h"
