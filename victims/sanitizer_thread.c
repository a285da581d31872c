// flags: -fsanitize=thread -pthread
// untracked: own-allocator
// Linked with the shared run-time library, as gcc does.
#include "sanitizer.h"
