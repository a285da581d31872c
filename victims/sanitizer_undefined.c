// flags: -fsanitize=undefined -pthread
// expect: live fn=main kind=realloc count=1 bytes=7777 innermost
// Leaves malloc alone: tracked as any other.
#include "sanitizer.h"
