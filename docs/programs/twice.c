#include <stdlib.h>

struct message { char *text; };

__attribute__((noinline)) static void give_up(struct message *message) { free(message->text); }
__attribute__((noinline)) static void done(struct message *message) { free(message->text); }

int main(void) {
    struct message message = { malloc(100) };
    give_up(&message);
    done(&message);
    return 0;
}
