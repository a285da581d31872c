// flags: -pthread
// Storms in threads with stacks of 16 KiB. When one ends its stack is unmapped or freed, and the next thread gets one at the
// same address: what the tracker remembers of a dead thread may be gone, or be another's.
#define STORM_KINDS_USED 8
#include "unwind_storm.h"

enum { ROUNDS = 40, AT_ONCE = 3, OF_EACH = 30, STACK = 16 * 1024 };

static struct storm storms[AT_ONCE];
CALL_SITE void *thread_one(void *s)
{
    storm(s, OF_EACH);
    return s;
}
// Calls the same, at the same place of the stack, from a frame of the same size.
CALL_SITE void *thread_two(void *s)
{
    storm(s, OF_EACH);
    __asm__ volatile("# two");
    return s;
}
CALL_SITE void *thread_three(void *s)
{
    char room[256];
    opaque(room);
    storm(s, OF_EACH);
    opaque(room);
    return s;
}

int main(void)
{
    static void *(*const functions[])(void *) = {thread_one, thread_two, thread_three};
    static char *at[AT_ONCE];
    int same = 0, from_heap = 0;
    char *last_from_heap = NULL;
    uint32_t random = 16807;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[AT_ONCE];
        char *stacks[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            // The last one's stack is a block.
            if (i == AT_ONCE - 1) {
                stacks[i] = aligned_alloc(4096, STACK);
                from_heap += stacks[i] == last_from_heap;
                last_from_heap = stacks[i];
            } else {
                stacks[i] = mmap(at[i], STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                same += stacks[i] == at[i];
                at[i] = stacks[i];
            }
            CHECK(stacks[i] != NULL && stacks[i] != MAP_FAILED);
            storms[i] = (struct storm){.random = next_random(&random)};
            pthread_attr_t attributes;
            CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stacks[i], STACK) == 0);
            void *(*function)(void *) = functions[next_random(&random) % 3];
            CHECK(pthread_create(&threads[i], &attributes, function, &storms[i]) == 0);
            CHECK(pthread_attr_destroy(&attributes) == 0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            if (i == AT_ONCE - 1)
                free(stacks[i]);
            else
                CHECK(munmap(stacks[i], STACK) == 0);
        }
    }
    // If they came to lie elsewhere, nothing was tested.
    CHECK(same > ROUNDS / 2 && from_heap > ROUNDS / 2);
    printf("marks %d\n", ROUNDS * AT_ONCE * OF_EACH);
    return 0;
}
