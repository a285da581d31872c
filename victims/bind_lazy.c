// flags: -Wl,-z,lazy
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// Symbols bound at the first call, through the loader's trampoline.
#include "linked.h"
