// flags: -std=c++17
// A storm in which half of all marks are followed by an exception that any outer step catches. Destructors on its way
// allocate, called from other places than without it. A mark of theirs is 2^24 more than the mark of their step.
#include <exception>
struct storm;
static void leave(struct storm *s, int depth);
#define STORM_ARRIVE(s, size, depth) Held held(s, size)
#define STORM_TRY try
#define STORM_CATCH(s, depth)               \
    catch (const Jump &jump)                \
    {                                       \
        if (jump.to != depth)               \
            throw;                          \
    }
#define STORM_LEAVE(s, depth) leave(s, depth)

struct Jump {
    int to;
};
class Held {
    struct storm *s;
    unsigned size;

public:
    Held(struct storm *s, unsigned size) : s(s), size(size) {}
    __attribute__((noipa)) ~Held();
};
#include "unwind_storm.h"

static int thrown, on_the_way;

__attribute__((noipa)) static void leave(struct storm *s, int depth)
{
    uint32_t way = next_random(&s->random);
    if (way % 2 == 0 || depth < 2)
        return;
    thrown++;
    throw Jump{1 + (int)((way >> 8) % (depth - 1))};
}
Held::~Held()
{
    // Only where the mark is long enough to be told from other sizes.
    if (std::uncaught_exceptions() == 0 || size < STORM_BASE * STORM_BASE * STORM_BASE || s->marks >= s->wanted)
        return;
    s->marks++;
    on_the_way++;
    MARK((1 << 24) + size);
}

int main()
{
    struct storm s = {};
    s.random = 88675123;
    storm(&s, 2500);
    CHECK(thrown > 300 && on_the_way > 300);
    printf("marks %d\n", s.marks);
}
