// flags: -pie -fPIE -Wl,-z,separate-code -Wl,-z,max-page-size=0x200000
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// The same, where the loader chooses the address.
#include "linked.h"
