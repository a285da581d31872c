// flags: -pthread -Wl,--no-as-needed
// libs: -l:libjemalloc.so.2
// package: libjemalloc2
// expect: live fn=tiny kind=malloc count=1000
// The program's own allocator as a linked library, as with Debian's redis: small_blocks.c over jemalloc, next in line.
#include "small_blocks.c"
