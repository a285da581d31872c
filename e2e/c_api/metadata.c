// The C side of crates/metadata: several lists around malloc, blocks that come and go in any order, functions that are told, lines.
// Run by e2e/tests/metadata.rs.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heapledger-metadata.h"
#include "check.h"

static struct heapledger_metadata_list lists[2];
static size_t came, went;

static void told(int what, const struct heapledger_metadata_list *list, const void *user, const unsigned char *blob, size_t bytes)
{
    CHECK(list == &lists[1] && user != NULL && bytes > 2);
    CHECK((((size_t)blob[bytes - 2] << 8 | blob[bytes - 1]) & 0x7fff) == bytes);
    *(what == HEAPLEDGER_METADATA_ALLOCATED ? &came : &went) += 1;
}

static void *allocate(struct heapledger_metadata_list *list, const uintptr_t *frames, size_t count, uintptr_t low, size_t size)
{
    struct heapledger_metadata metadata;
    size_t more = heapledger_metadata_prepare(&metadata, frames, count, 0, 0, low, low ? low + 0x1000000 : 0, size);
    CHECK(more % 16 == 0 && more >= 32);
    unsigned char *start = malloc(size + more);
    unsigned char *user = heapledger_metadata_adjust(list, start, &metadata);
    CHECK(user == start + more && (uintptr_t)user % 16 == 0);
    memset(user, 0xaa, size);
    return user;
}

static void release(void *user) { free(heapledger_metadata_trim(user)); }

static char text[1 << 16];
static size_t text_bytes;

static int collect(const char *part, size_t bytes, void *context)
{
    CHECK(context == text && text_bytes + bytes < sizeof text);
    memcpy(text + text_bytes, part, bytes);
    text_bytes += bytes;
    return 0;
}

static int refuse(const char *part, size_t bytes, void *context)
{
    (void)part, (void)bytes;
    return ++*(int *)context == 2;
}

static int count_one(const void *user, const unsigned char *blob, size_t bytes, void *context)
{
    CHECK(user != NULL && blob != NULL && bytes > 2);
    return ++*(int *)context == 3;
}

int main(void)
{
    // Frames of the page on libwebsockets, at another place: where the program begins is taken off, and what is no part of it left out.
    const uintptr_t base = sizeof(void *) == 8 ? (uintptr_t)0x550000000000 : 0x10000000;
    const uintptr_t frames[] = {base + 0x406651, base + 0x406852, base + 0x406c1b, base + 0x406294, base - 1, base + 0x1000000};
    void *first = allocate(&lists[0], frames, 6, base, 7520), *second = allocate(&lists[0], NULL, 0, 0, 100);
    CHECK(heapledger_metadata_write(&lists[0], 0, collect, text) == 0);
    text[text_bytes] = 0;
    CHECK(strcmp(text, "~m#IF0BmUQugNCkgCnkhdAYpQa6wAAV\n~m#AHZAAAU=\n") == 0);
    text_bytes = 0;
    CHECK(heapledger_metadata_write(&lists[0], 1, collect, text) == 0);
    text[text_bytes] = 0;
    CHECK(strcmp(text, "~b#size: 7520, 0x406651 0x406852 0x406c1b 0x406294 \n~b#size: 100, \n") == 0);
    int calls = 0;
    CHECK(heapledger_metadata_write(&lists[0], 1, refuse, &calls) == -1 && calls == 2);

    // Left out are the innermost and the outermost; and of more frames than a backtrace can have, those further out.
    uintptr_t deep[200];
    for (size_t frame = 0; frame < 200; frame++)
        deep[frame] = 0x1000 + frame * 16;
    struct heapledger_metadata metadata;
    CHECK(heapledger_metadata_prepare(&metadata, deep, 200, HEAPLEDGER_METADATA_PRE, HEAPLEDGER_METADATA_POST, 0, 0, 1) > 0);
    struct heapledger_metadata_list one = {{0}};
    unsigned char *start = calloc(1, 1024);
    void *user = heapledger_metadata_adjust(&one, start, &metadata);
    text_bytes = 0;
    CHECK(heapledger_metadata_write(&one, 1, collect, text) == 0);
    text[text_bytes] = 0;
    size_t blanks = 0;
    for (const char *at = text; *at; at++)
        blanks += *at == ' ';
    CHECK(strncmp(text, "~b#size: 1, 0x1020 0x1030 ", 26) == 0 && blanks == 2 + 31);
    CHECK(heapledger_metadata_trim(user) == start && heapledger_metadata_count(&one) == 0);
    free(start);

    // Two lists, and blocks that go in another order than they came.
    heapledger_metadata_tell(&lists[1], told);
    void *blocks[100];
    for (int block = 0; block < 100; block++)
        blocks[block] = allocate(&lists[block % 2], frames, 1 + block % 4, 0, 1 + block);
    CHECK(came == 50 && heapledger_metadata_count(&lists[0]) == 52 && heapledger_metadata_count(&lists[1]) == 50);
    calls = 0;
    heapledger_metadata_walk(&lists[1], count_one, &calls);
    CHECK(calls == 3);
    for (int block = 0; block < 100; block++) {
        unsigned char *bytes = blocks[block * 37 % 100];
        for (int byte = 0; byte < 1 + block * 37 % 100; byte++)
            CHECK(bytes[byte] == 0xaa);
        release(bytes);
    }
    release(second);
    release(first);
    CHECK(went == 50 && heapledger_metadata_count(&lists[0]) == 0 && heapledger_metadata_count(&lists[1]) == 0);

    // Nothing gives nothing.
    CHECK(heapledger_metadata_adjust(&lists[0], NULL, &metadata) == NULL && heapledger_metadata_trim(NULL) == NULL);
    release(NULL);
    text_bytes = 0;
    CHECK(heapledger_metadata_write(&lists[0], 0, collect, text) == 0 && text_bytes == 0);
    puts("all is well");
    return 0;
}
