/* Does, one after the other, what there are functions for to break on: a call that gives no block, live bytes above a limit, and as many
   frees as its argument says, and some more. */

#define HEAPLEDGER_WEAK
#include "check.h"
#include <heapledger.h>

int main(int arguments, char **words) {
    int round, history = arguments > 1 ? atoi(words[1]) : 0;
    CHECK(HEAPLEDGER_PRESENT());
    CHECK(kept(malloc((size_t)-1 - 4096)) == NULL);
    CHECK(heapledger_on_live_above(10000000, 0, NULL, NULL) > 0);
    free(kept(malloc(20000000)));
    for (round = 0; round < history + 100; round++) free(kept(malloc(8)));
    puts("whole");
    return 0;
}
