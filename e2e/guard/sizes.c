/* Asks how large a block is: of one that lives, or, as is said, of one that was freed, of a place inside of one, of a variable. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char global[64];

int main(int count, char **arguments)
{
	size_t (*volatile ask)(void *) = malloc_usable_size;
	const char *of = count > 1 ? arguments[1] : "";
	char local[64], *block = malloc(100);

	if (ask(block) < 100 || ask(NULL) != 0)
		return 1;
	if (!strcmp(of, "freed")) {
		free(block);
		ask(block);
	} else if (!strcmp(of, "inside")) {
		ask(block + 16);
	} else if (!strcmp(of, "global")) {
		ask(global + 16);
	} else if (!strcmp(of, "local")) {
		ask(local + 16);
	}
	puts("goes on");
	return 0;
}
