#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job { struct job *next; char *text; };
static struct job *done;

/* Growth: jobs that are done are kept, in case somebody asks for them. */
__attribute__((noinline)) static void keep(const char *text) {
    struct job *job = malloc(sizeof *job);
    job->text = strdup(text);
    job->next = done;
    done = job;
}

int main(int count, char **words) {
    int jobs = count > 1 ? atoi(words[1]) : 1000;
    char text[200];
    for (int i = 0; i < jobs; i++) {
        snprintf(text, sizeof text, "job %d: a text that is long enough to be seen in a ledger", i);
        keep(text);
        usleep(1000);
    }
    return 0;
}
