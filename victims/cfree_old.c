// expect: live fn=for_cfree count=0
// An old binary calls cfree, which glibc still has for it (cfree@GLIBC_2.2.5) but gives to no newly linked program.
#include "victim.h"

extern void old_cfree(void *);
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");

CALL_SITE void *for_cfree(void) { return opaque(malloc(60)); }

int main(void)
{
    for (int i = 0; i < 50; i++) {
        void *p = for_cfree();
        errno = 77;
        old_cfree(p);
        old_cfree(NULL);
        CHECK(errno == 77);
    }
    printf("done\n");
    return 0;
}
