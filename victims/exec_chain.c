// expect: live fn=leak_after_wrappers kind=malloc count=7 bytes=777
// Started through wrapper scripts: sh execs env, env execs sh, sh execs us. The last image is the one people care about.
#include "victim.h"

CALL_SITE void *leak_after_wrappers(void) { return opaque(malloc(111)); }

int main(int argc, char **argv)
{
    if (argc == 1) {
        static char self[4096];
        CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
        execl("/bin/sh", "sh", "-c", "exec env WRAPPED=1 sh -c 'exec \"$0\" end' \"$0\"", self, (char *)NULL);
        CHECK(!"exec failed");
    }
    CHECK(strcmp(argv[1], "end") == 0 && getenv("WRAPPED") != NULL);
    for (int i = 0; i < 7; i++)
        leak_after_wrappers();
    printf("reached\n");
    return 0;
}
