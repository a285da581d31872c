/* A compressed backtrace before each block of an allocator, and a list of all that live: what libwebsockets'
 * lws_alloc_metadata does, for any allocator. Link with libheapledger_metadata_c.a.
 *
 *     true start | gap | backtrace, its length at its end | node of the list, 3 words | user's block
 *
 * The user's block lies at a multiple of 16 if the allocator's does. Nothing here allocates, locks or waits. "Lock held"
 * below: hold the lock of that list, and do not call its allocator meanwhile. The length, two bytes, the higher first, counts
 * itself; its highest bit says that the backtrace is one that libwebsockets' format cannot hold. */
#ifndef HEAPLEDGER_METADATA_H
#define HEAPLEDGER_METADATA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Innermost frames that are left out, those of the instrumentation; and outermost ones, those of a program's start:
 * what libwebsockets leaves out unless it is told otherwise. */
#define HEAPLEDGER_METADATA_PRE 2
#define HEAPLEDGER_METADATA_POST 1

/* A list of live blocks. Zeros are an empty one. It must stay where it is while it has blocks. */
struct heapledger_metadata_list {
    void *private_[6];
};

/* A backtrace that is to stand before a block. */
struct heapledger_metadata {
    union {
        unsigned char bytes[320];
        size_t aligned;
    } private_;
};

enum heapledger_metadata_came { HEAPLEDGER_METADATA_ALLOCATED = 0, HEAPLEDGER_METADATA_FREED = 1 };

/* Has a function called for each block that has come into the list, or is about to leave it, with its backtrace, lock
 * held; NULL: none. Lock held. */
typedef void (*heapledger_metadata_told)(int came, const struct heapledger_metadata_list *list, const void *user,
                                         const unsigned char *blob, size_t bytes);
void heapledger_metadata_tell(struct heapledger_metadata_list *list, heapledger_metadata_told told);

/* Packs the backtrace of whoever asks for `size` bytes: `count` return addresses, innermost first, of which the `pre`
 * innermost and the `post` outermost are left out, and at most 31 are kept. Of these, addresses from `low` to `high` are
 * written less `low`, and others left out: with __executable_start and etext they are addresses in the program's file,
 * wherever it lies. 0 and 0: all, as they are. Returns how many bytes more the allocator is to be asked for. No lock. */
size_t heapledger_metadata_prepare(struct heapledger_metadata *metadata, const uintptr_t *frames, size_t count,
                                   size_t pre, size_t post, uintptr_t low, uintptr_t high, size_t size);

/* Puts it before a block, and the block into the list. `start` is what the allocator gave for that many bytes more; NULL
 * gives NULL. Returns the user's block. Lock held. */
void *heapledger_metadata_adjust(struct heapledger_metadata_list *list, void *start,
                                 const struct heapledger_metadata *metadata);

/* Takes a block out of the list it is in. Returns what the allocator gave for it; NULL gives NULL. Lock held. */
void *heapledger_metadata_trim(void *user);

/* How many blocks live. Lock held. */
size_t heapledger_metadata_count(const struct heapledger_metadata_list *list);

/* Calls `each` for each live block, oldest first, until it returns another number than 0. Lock held. */
void heapledger_metadata_walk(const struct heapledger_metadata_list *list,
                              int (*each)(const void *user, const unsigned char *blob, size_t bytes, void *context),
                              void *context);

/* Writes a line for each live block, oldest first: `~m#...`, or, if `plain`, `~b#size: ...`. `out` takes parts of them,
 * which do not end with a zero, and returns 0; another number ends it, and -1 is returned, else 0. Lock held. */
int heapledger_metadata_write(const struct heapledger_metadata_list *list, int plain,
                              int (*out)(const char *text, size_t bytes, void *context), void *context);

#ifdef __cplusplus
}
#endif

#endif
