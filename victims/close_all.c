// run:
// run: 256 all
// expect: live fn=keep_block kind=malloc count>=100
// Closes every descriptor (ARG2 = all: also 0, 1, 2), opens its own file on the freed numbers, allocates ARG1 MiB (default 1024,
// hardly touched) in blocks of 64 bytes to 1 MiB, and verifies that nobody else wrote into the file.
#include "victim.h"
#include <sys/stat.h>

enum { COPIES = 200, RECORD = 64 };
CALL_SITE char *keep_block(size_t n) { return (char *)opaque(malloc(n)); }

int main(int argc, char **argv)
{
    long target = arg_number(argc, argv, 1, 1024) << 20;
    int all = argc > 2 && strcmp(argv[2], "all") == 0;
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char path[4096];
    CHECK((size_t)snprintf(path, sizeof path, "%s/victim-close-all-XXXXXX", dir) < sizeof path);

    // What stood on the low numbers is kept under high ones only if it has to speak at the end.
    printf("closing %s\n", all ? "all" : "from 3");
    fflush(stdout);
    CHECK(close_range(all ? 0 : 3, ~0u, 0) == 0);
    int fd = mkstemp(path);
    CHECK(fd == (all ? 0 : 3));
    CHECK(unlink(path) == 0);
    for (int i = 1; i < COPIES; i++)
        CHECK(dup(fd) == fd + i); // a number that is taken would show here

    uint32_t seed = 42;
    long allocated = 0, written = 0;
    char *previous = NULL;
    char record[RECORD];
    for (long i = 0; allocated < target; i++) {
        // Sizes spread evenly over the powers of two.
        size_t n = (size_t)64 << next_random(&seed) % 14;
        n += next_random(&seed) % n;
        if (n > 1 << 20)
            n = 1 << 20;
        char *p = keep_block(n);
        CHECK(p != NULL);
        p[0] = 1;
        allocated += n;
        if (i % 3 == 0)
            free(previous), previous = NULL;
        else
            previous = p;
        if (i % 16 == 0) {
            memset(record, 'a' + written % 26, RECORD);
            CHECK(write(fd + written % COPIES, record, RECORD) == RECORD);
            written++;
        }
    }
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_size == written * RECORD);
    CHECK(lseek(fd, 0, SEEK_CUR) == written * RECORD); // shared by all copies
    for (long i = 0; i < written; i++) {
        CHECK(pread(fd, record, RECORD, i * RECORD) == RECORD);
        for (int k = 0; k < RECORD; k++)
            CHECK(record[k] == 'a' + i % 26);
    }
    for (int i = 0; i < COPIES; i++)
        CHECK(fcntl(fd + i, F_GETFD) == 0);
    CHECK(dup(fd) == fd + COPIES);
    return 0;
}
