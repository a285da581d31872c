/* What firmware under test can do, see start.c. */
#include <stdint.h>

#ifndef HEAP_BYTES
#define HEAP_BYTES 20480
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The C library's heap. */
extern uint8_t heap[HEAP_BYTES];

/* The firmware begins here. */
void start(void);

/* Ends QEMU with this status. */
void fail(uint32_t status) __attribute__((noreturn));

/* Asks for a reset: QEMU was told to stop there. */
void reset(void) __attribute__((noreturn));

/* Stores into a register of a device. */
void store(uintptr_t where, uint32_t what);

/* Has the interrupt come whose handler is Tick(). In whoever calls this: its frame is the one that is interrupted. */
#ifdef __arm__
#define INTERRUPT() (*(volatile uint32_t *)0xE000ED04 = 1u << 26)
#else
#define INTERRUPT() (*(volatile uint32_t *)0x2000000 = 1)
#endif

/* Writes text to QEMU's console. */
void print(const char *text);

/* Writes a word and a number, in a line of QEMU's console. */
void say(const char *word, uint32_t number);

#ifdef __cplusplus
}
#endif
