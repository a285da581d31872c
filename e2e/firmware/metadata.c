/* Firmware in C that instruments one library's own allocator: each block that zlib holds knows who asked for it. What it prints are the lines
   of all of them, in both forms, and what zlib has asked for. Built by `xtask/src/thumb.sh`, read by `e2e/tests/firmware_metadata.rs`. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "heapledger-metadata.h"
#include "start.h"

static struct heapledger_metadata_list live;
static uint32_t came, went, asked_bytes;

/* There is one task and no interrupt allocates: nobody else is at the list. */
static void told(int what, const struct heapledger_metadata_list *list, const void *user, const unsigned char *blob, size_t bytes)
{
    (void)blob;
    if (list != &live || !user || (uintptr_t)user % 8 || bytes < 3) fail(20);
    *(what == HEAPLEDGER_METADATA_ALLOCATED ? &came : &went) += 1;
}

extern const uint32_t stack_top[];

/* Return addresses along the frame pointers, the caller's first. */
static size_t frames_of(uintptr_t *frames, size_t most)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    size_t count = 0;
    while (count < most && (uintptr_t)frame % 4 == 0 && frame > (const uintptr_t *)&count && frame < (const uintptr_t *)stack_top) {
#ifdef __arm__
        uintptr_t back = frame[1] & ~(uintptr_t)1, next = frame[0];
#else
        uintptr_t back = frame[-1], next = frame[-2];
#endif
        if (!back) break;
        frames[count++] = back;
        if (next <= (uintptr_t)frame) break;
        frame = (const uintptr_t *)next;
    }
    return count;
}

static voidpf instrumented_alloc(voidpf opaque, uInt items, uInt size)
{
    uintptr_t frames[16];
    struct heapledger_metadata metadata;
    size_t bytes = (size_t)items * size, count = frames_of(frames, 16);
    size_t more = heapledger_metadata_prepare(&metadata, frames, count, 0, 0, 0, 0, bytes);
    (void)opaque;
    asked_bytes += bytes;
    return heapledger_metadata_adjust(&live, malloc(bytes + more), &metadata);
}

static void instrumented_free(voidpf opaque, voidpf user)
{
    (void)opaque;
    free(heapledger_metadata_trim(user));
}

static int to_console(const char *text, size_t bytes, void *context)
{
    char part[128];
    (void)context;
    while (bytes) {
        size_t count = bytes < sizeof part - 1 ? bytes : sizeof part - 1;
        memcpy(part, text, count);
        part[count] = 0;
        print(part);
        text += count, bytes -= count;
    }
    return 0;
}

/* Who holds zlib's blocks. */
__attribute__((noinline)) static void begin_to_deflate(z_stream *stream)
{
    stream->zalloc = instrumented_alloc;
    stream->zfree = instrumented_free;
    if (deflateInit2(stream, 6, Z_DEFLATED, 9, 1, Z_DEFAULT_STRATEGY) != Z_OK) fail(21);
}

static int count_one(const void *user, const unsigned char *blob, size_t bytes, void *context)
{
    (void)user, (void)blob, (void)bytes;
    ++*(uint32_t *)context;
    return 0;
}

void start(void)
{
    static z_stream kept, gone;
    static unsigned char text[1000], packed[1200];
    uint32_t walked = 0;
    heapledger_metadata_tell(&live, told);
    begin_to_deflate(&kept);
    begin_to_deflate(&gone);
    if (deflateEnd(&gone) != Z_OK) fail(22);
    /* The library works with what it was given. */
    for (size_t at = 0; at < sizeof text; at++) text[at] = "heapledger"[at % 10];
    kept.next_in = text, kept.avail_in = sizeof text;
    kept.next_out = packed, kept.avail_out = sizeof packed;
    if (deflate(&kept, Z_FINISH) != Z_STREAM_END || kept.total_out > 100) fail(23);

    heapledger_metadata_walk(&live, count_one, &walked);
    if (walked != heapledger_metadata_count(&live)) fail(24);
    say("live", walked);
    say("came", came);
    say("went", went);
    if (heapledger_metadata_write(&live, 0, to_console, NULL)) fail(25);
    if (heapledger_metadata_write(&live, 1, to_console, NULL)) fail(26);
    say("asked", asked_bytes);
    deflateEnd(&kept);
    if (heapledger_metadata_count(&live) || came != went) fail(27);
    fail(0);
}
