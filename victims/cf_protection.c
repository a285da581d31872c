// flags: -fcf-protection=full -Wl,-z,lazy
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// endbr64 at every entry, and the PLT in two sections.
#include "linked.h"
