/* A library that speaks to the recorder of whatever program it is in. It needs no header but ours: built for other systems, too. */

#define HEAPLEDGER_WEAK
#include <heapledger.h>

#ifdef __cplusplus
extern "C" {
#endif

int of_library(void);

int of_library(void) {
    heapledger_u64 now = heapledger_now_ns();
    return now + 1 == 0 ? HEAPLEDGER_E_ABSENT : heapledger_mark("of a library");
}

#ifdef __cplusplus
}
#endif
