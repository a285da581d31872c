/* Somebody looks at its blocks from outside while it waits for a line; each further line is something that it does before. It puts right
 * again what it damages, so that nobody else tells of it. Its first argument: so many threads allocate and free meanwhile; its second: they
 * rest for so many microseconds now and then.
 *
 *   whole      nothing
 *   behind     a byte behind a block of 13 bytes
 *   before     a byte in front of a block of 40
 *   header     the size in front of a block of 24, where there is a header
 *   freed      a byte of a block of 100 that was freed, where such blocks wait
 *   many       the bytes behind 500 blocks of 40 bytes, which stay so
 *   fork       its child waits for lines in its place
 *   abort      dies, with the damage
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *give(size_t bytes)
{
	unsigned char *block = malloc(bytes);

	memset(block, 1, bytes);
	return block;
}

static void end(unsigned char *block)
{
	free(block);
}

static unsigned char *changed;
static unsigned char before;

static void change(unsigned char *at, unsigned char value)
{
	changed = at;
	before = *at;
	*(volatile unsigned char *)at = value;
}

static volatile int busy = 1;
static unsigned pause_us;

static void *comes_and_goes(void *unused)
{
	void *kept[64] = { 0 };

	for (unsigned turn = 0; busy; turn++) {
		if (pause_us != 0 && turn % 16 == 0)
			usleep(pause_us);
		free(kept[turn % 64]);
		kept[turn % 64] = malloc(turn % 101 == 0 ? 300000 : turn % 2000);
	}
	for (int block = 0; block < 64; block++)
		free(kept[block]);
	return unused;
}

int main(int count, char **arguments)
{
	unsigned char *volatile behind = give(13);
	unsigned char *volatile infront = give(40);
	unsigned char *volatile header = give(24);
	unsigned char *volatile freed = give(100);
	pthread_t threads[3];
	char line[100];

	for (int block = 0; block < 1000; block++)
		give(block % 100);
	end(freed);
	int busy_threads = count > 1 ? atoi(arguments[1]) : 0;
	pause_us = count > 2 ? atoi(arguments[2]) : 0;
	for (int thread = 0; thread < busy_threads; thread++)
		pthread_create(&threads[thread], NULL, comes_and_goes, NULL);
	while (puts("ready") && fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "abort"))
			abort();
		if (changed)
			*(volatile unsigned char *)changed = before;
		changed = NULL;
		if (!strcmp(line, "behind"))
			change(behind + 13, 0x5A);
		else if (!strcmp(line, "before"))
			change(infront - 1, 0x5A);
		else if (!strcmp(line, "header"))
			change(header - 16, 0x5A);
		else if (!strcmp(line, "freed"))
			change(freed + 50, 0x5A);
		else if (!strcmp(line, "many")) {
			for (int block = 0; block < 500; block++)
				*(volatile unsigned char *)(give(40) + 40) = 0x5A;
		} else if (!strcmp(line, "fork")) {
			pid_t child = fork();

			if (child != 0) {
				waitpid(child, NULL, 0);
				return 0;
			}
			printf("%d\n", (int)getpid());
		}
	}
	if (changed)
		*(volatile unsigned char *)changed = before;
	busy = 0;
	for (int thread = 0; thread < busy_threads; thread++)
		pthread_join(threads[thread], NULL);
	return 0;
}
