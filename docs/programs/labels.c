/* Who holds what, as the program itself would say it: a label for each tenant, a window for each round of requests. */
#define HEAPLEDGER_WEAK
#include "heapledger.h"
#include <stdio.h>
#include <stdlib.h>

struct session {
    struct session *next;
    char text[1000];
};

static struct session *sessions;

static void handle(int request)
{
    struct session *session = malloc(sizeof *session);
    char *answer = malloc(5000);
    snprintf(answer, 5000, "answer %d", request);
    snprintf(session->text, sizeof session->text, "%s", answer);
    session->next = sessions;
    sessions = session;
    free(answer);
}

static void serve(const char *tenant, int requests)
{
    int before = heapledger_label_set(heapledger_label(0, "tenant", tenant));
    int request;
    for (request = 0; request < requests; request++)
        handle(request);
    heapledger_label_set(before);
}

int main(void)
{
    struct heapledger_figures figures = {sizeof figures};
    int window = heapledger_window_open("requests", HEAPLEDGER_LEAKS, 0);
    serve("acme", 30);
    serve("zenith", 10);
    heapledger_window_stop(window);
    if (heapledger_window_figures(window, &figures) == 0)
        printf("%lu blocks, %lu of them live\n", (unsigned long)figures.allocations, (unsigned long)figures.live_blocks);
    return 0;
}
