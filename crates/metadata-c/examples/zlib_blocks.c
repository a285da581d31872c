// zlib's own allocator, instrumented: each block that it holds knows who asked for it, and the lines of all of them go to
// standard output.
//
//     cargo build --release -p heapledger-metadata-c
//     cc -g -I crates/metadata-c/include crates/metadata-c/examples/zlib_blocks.c target/release/libheapledger_metadata_c.a -lz -o zlib_blocks
//     ./zlib_blocks | heapledger heapmap - --exe zlib_blocks
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "heapledger-metadata.h"

static struct heapledger_metadata_list live;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
extern const char __executable_start[], etext[];

static voidpf instrumented_alloc(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    void *frames[48];
    int count = backtrace(frames, 48);
    struct heapledger_metadata metadata;
    size_t bytes = (size_t)items * size;
    // One frame is this function's. Those of zlib itself, another module, are left out.
    size_t more = heapledger_metadata_prepare(&metadata, (const uintptr_t *)frames, (size_t)count, 1,
                                              HEAPLEDGER_METADATA_POST, (uintptr_t)__executable_start,
                                              (uintptr_t)etext, bytes);
    void *start = malloc(bytes + more);
    pthread_mutex_lock(&lock);
    void *user = heapledger_metadata_adjust(&live, start, &metadata);
    pthread_mutex_unlock(&lock);
    return user;
}

static void instrumented_free(voidpf opaque, voidpf user)
{
    (void)opaque;
    pthread_mutex_lock(&lock);
    void *start = heapledger_metadata_trim(user);
    pthread_mutex_unlock(&lock);
    free(start);
}

static int to_stdout(const char *text, size_t bytes, void *context)
{
    (void)context;
    return fwrite(text, 1, bytes, stdout) == bytes ? 0 : -1;
}

static void begin_to_deflate(z_stream *stream)
{
    stream->zalloc = instrumented_alloc;
    stream->zfree = instrumented_free;
    if (deflateInit(stream, 6) != Z_OK)
        exit(1);
}

int main(void)
{
    static z_stream kept, gone;
    begin_to_deflate(&kept);
    begin_to_deflate(&gone);
    deflateEnd(&gone);
    pthread_mutex_lock(&lock);
    int result = heapledger_metadata_write(&live, 0, to_stdout, NULL);
    pthread_mutex_unlock(&lock);
    deflateEnd(&kept);
    return result == 0 && heapledger_metadata_count(&live) == 0 ? 0 : 1;
}
