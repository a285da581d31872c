// flags: -no-pie -Wl,-z,separate-code -Wl,-z,max-page-size=0x200000
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// Linked with gaps between its segments, as for large pages: the loader tells of each segment by itself, and the ELF header,
// which leads to the unwind table, lies in another one than the code.
#include "linked.h"
