// expect: live fn=hold count=30 bytes=30000
// expect: live fn=left count=10 bytes=10000
// Stacks that differ further out than a line of a report shows: to a person they are one.
#include <stdlib.h>

static void *volatile kept;

__attribute__((noipa)) static void hold(void)
{
    kept = malloc(1000);
}

__attribute__((noipa)) static void inner(void)
{
    hold();
    __asm__ volatile("");
}

__attribute__((noipa)) static void middle(void)
{
    inner();
    __asm__ volatile("");
}

__attribute__((noipa)) static void left(void)
{
    middle();
    __asm__ volatile("");
}

__attribute__((noipa)) static void right(void)
{
    middle();
    __asm__ volatile("");
}

int main(void)
{
    for (int i = 0; i < 10; i++) {
        left();
        right();
        right();
    }
    return 0;
}
