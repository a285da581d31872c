// flags: -fno-asynchronous-unwind-tables -fomit-frame-pointer
// losses: stacks_broken
// expect: live fn=leak_linked kind=malloc count=6 bytes=222 innermost
// The executable has neither .eh_frame nor frame pointers: stacks end early, nothing may crash.
#include "linked.h"
