// flags: -fno-asynchronous-unwind-tables -fno-omit-frame-pointer
// losses: stacks_guessed
// expect: live fn=leak_linked kind=malloc count=6 bytes=222
// The executable has no .eh_frame of its own code, but frame pointers.
#include "linked.h"
