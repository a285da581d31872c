/* One byte is flipped at each place around a block, of a live one and of a freed one: what of it is told is told by the level.
 *
 *   reach LEVEL     off, light, full: says how often something is to be told when blocks are freed, and when the program ends
 *
 * Nothing is put right again. At `off` only what is the block's own is flipped: beside it lies what the allocator needs.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = { 0, 1, 7, 8, 13, 16, 24, 25, 100, 1000, 4096, 70000 };

static volatile unsigned char *give(size_t size)
{
	volatile unsigned char *block = malloc(size);

	for (size_t at = 0; at < size; at++)
		block[at] = 0x11;
	return block;
}

static void end(volatile unsigned char *block)
{
	free((void *)block);
}

/* The next place: each one around a block and in a small one, some in a large one, and its end. */
static long next(long at, long size)
{
	long step = size < 200 ? 1 : size / 61;

	return at < 0 || at >= size ? at + 1 : at + step < size ? at + step : size;
}

/* What is watched behind a block. At `light` that is all that glibc gave. */
static long behind(const char *level, long size)
{
	if (!strcmp(level, "light")) {
		long chunk = (16 + size + 4 + 8 + 15) / 16 * 16;

		return (chunk < 32 ? 32 : chunk) - 8 - 16 - size;
	}
	return !strcmp(level, "full") ? 48 : 0;
}

int main(int count, char **arguments)
{
	const char *level = count > 1 ? arguments[1] : "off";
	int is_light = !strcmp(level, "light"), is_full = !strcmp(level, "full");
	long in_front = is_light || is_full ? 16 : 0;
	long at_free = 0, at_end = 0;

	for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
		long bytes = (long)sizes[size];

		for (long at = -in_front; at < bytes + behind(level, bytes); at = next(at, bytes)) {
			volatile unsigned char *block = give(sizes[size]);

			block[at] ^= 0x40;
			end(block);
			at_free += at < 0 || at >= bytes;
		}
	}
	/* What was freed is the program's no more, and nobody's but where it waits: each byte that is flipped then is told once. */
	for (size_t size = 0; is_full && size < sizeof sizes / sizeof *sizes; size++) {
		long bytes = (long)sizes[size];

		for (long at = -in_front; at < bytes + behind(level, bytes); at = next(at, bytes)) {
			volatile unsigned char *block = give(sizes[size]);

			end(block);
			block[at] ^= 0x40;
			/* So much of a block is filled. */
			at_end += at < 65536 || at >= bytes;
		}
	}
	printf("%ld %ld\n", at_free, at_end);
	return 0;
}
