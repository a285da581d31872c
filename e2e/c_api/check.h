/* What the programs of this directory have in common. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Ends the program, and says where. */
#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(1); } } while (0)
#define EQUAL(one, other) do { \
        long long one_ = (long long)(one), other_ = (long long)(other); \
        if (one_ != other_) { \
            fprintf(stderr, "line %d: %s is %lld and not %lld\n", __LINE__, #one, one_, other_); \
            _exit(1); \
        } \
    } while (0)

/* The compiler knows malloc, and takes away what nobody seems to need. */
static __thread void *volatile hidden_;
static inline void *kept(void *block) {
    hidden_ = block;
    return hidden_;
}

#endif
