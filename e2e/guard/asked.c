/* What a person may ask of the guard, seen from the program: with what blocks are filled, how far apart they lie, and whether it goes on.
 *
 *   fills      says the bytes at 0 and 100 of a new block, and of one that was freed
 *   far N      writes N bytes behind a block, and says how far the next one is
 *   refused    asks for more than there is
 *   twice      frees a block twice
 *   deep HOW   frees a block twice (free), copies past its end (call) or touches a page that is closed (page), seven functions deep
 *   behind     writes behind a block and frees it
 *   caught     the same, in a program that wants no SIGABRT
 *   child      a child of it writes behind a block and frees it; says how that ended
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*volatile give)(size_t) = malloc;
static void (*volatile end)(void *) = free;

static void write_behind(void)
{
	volatile unsigned char *block = give(20);

	block[20] = 1;
	end((void *)block);
}

/* Each of them needs its frame, and frame pointers lead nowhere where none are kept. */
static const char *how;

__attribute__((noinline)) static int deep(int depth, volatile unsigned char *block)
{
	if (depth > 0) {
		int below = deep(depth - 1, block);

		__asm__ volatile("" ::: "memory");
		return below + 1;
	}
	if (!strcmp(how, "free")) {
		end((void *)block);
		end((void *)block);
	} else if (!strcmp(how, "call")) {
		void *(*volatile copy)(void *, const void *, size_t) = memcpy;

		copy((void *)block, "012345678901234567890123456789", 29);
	} else {
		block[32] = 1;
	}
	return 1;
}

static void ignore(int signal)
{
	(void)signal;
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	volatile unsigned char *block = give(1000);

	if (!strcmp(what, "fills")) {
		int first = block[0], later = block[100];

		end((void *)block);
		printf("%02x %02x %02x %02x\n", first, later, block[0], block[100]);
	} else if (!strcmp(what, "far")) {
		volatile unsigned char *next = give(1000);
		long far = labs((long)((intptr_t)next - (intptr_t)block)) - 1000;

		block[1000 + atoi(arguments[2])] = 1;
		end((void *)block);
		printf("%ld\n", far);
	} else if (!strcmp(what, "refused")) {
		printf("%d\n", give((size_t)1 << 62) == NULL);
	} else if (!strcmp(what, "twice")) {
		end((void *)block);
		end((void *)block);
		puts("goes on");
	} else if (!strcmp(what, "deep")) {
		how = arguments[2];
		printf("%d\n", deep(6, give(!strcmp(how, "call") ? 28 : 32)));
	} else if (!strcmp(what, "behind")) {
		write_behind();
		puts("goes on");
	} else if (!strcmp(what, "caught")) {
		sigset_t all;

		signal(SIGABRT, ignore);
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		write_behind();
		puts("goes on");
	} else if (!strcmp(what, "child")) {
		int status = 0;

		if (fork() == 0) {
			write_behind();
			_exit(7);
		}
		wait(&status);
		printf("%d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
	}
	fflush(stdout);
	return 0;
}
