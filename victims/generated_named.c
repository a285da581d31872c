// flags: -fno-omit-frame-pointer
// losses: stacks_guessed
// expect: live fn=keep_some kind=malloc count=5 bytes=3500
// Code made at run time of which the program writes down, as engines do for perf, what it is: /tmp/perf-PID.map. With an
// argument the file stays, and whoever gave it removes it.
#include "unwind_machine_code.h"

CALL_SITE void keep_some(size_t size)
{
    for (int i = 0; i < 5; i++)
        opaque(malloc(size));
}

int main(int argc, char **argv)
{
    unsigned char *code = map_code(NULL, 0);
    make_machine_code(code, FRAME_POINTER, 64);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    CHECK(map != NULL);
    // As engines do: what was there before comes first.
    fprintf(map, "%lx 1000 JS:~gone /srv/old.js:1:1\n%lx 80 JS:*render /srv/page.js:12:34\n", (long)code, (long)code);
    CHECK(fclose(map) == 0);
    ((machine_code *)code)(700, keep_some, 0);
    CHECK(argc > 1 || unlink(path) == 0);
    (void)argv;
    puts("kept 5");
    return 0;
}
