/* Two threads free one block at the same moment, as often as is said; with a second argument each frees one of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int turn;
static void *volatile blocks[2];
static int rounds;

static void *other(void *nothing)
{
	for (int round = 1; round <= rounds; round++) {
		while (atomic_load(&turn) != round)
			;
		free(blocks[1]);
		atomic_store(&turn, -round);
	}
	return nothing;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	rounds = atoi(arguments[1]);
	pthread_create(&thread, NULL, other, NULL);
	for (int round = 1; round <= rounds; round++) {
		blocks[0] = malloc(50);
		blocks[1] = count > 2 ? malloc(50) : blocks[0];
		atomic_store(&turn, round);
		free(blocks[0]);
		while (atomic_load(&turn) != -round)
			;
	}
	pthread_join(thread, NULL);
	puts("goes on");
	return 0;
}
