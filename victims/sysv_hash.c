// flags: -Wl,--hash-style=sysv
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// Symbols through the old hash table only.
#include "linked.h"
