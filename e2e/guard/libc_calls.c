// Calls of the C library that read or write past an end of a block, or in one that was freed: copies, strings, wide ones, formats, files,
// sockets. Built with -fno-builtin, so that each call is one.
#include "case.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <wchar.h>

// Of the block, in all cases.
enum { SIZE = 48 };

EXTERN_C void *__memcpy_chk(void *, const void *, size_t, size_t);
EXTERN_C void *__memmove_chk(void *, const void *, size_t, size_t);
EXTERN_C void *__memset_chk(void *, int, size_t, size_t);
EXTERN_C char *__strcpy_chk(char *, const char *, size_t);
EXTERN_C char *__strcat_chk(char *, const char *, size_t);
EXTERN_C char *__strncpy_chk(char *, const char *, size_t, size_t);
EXTERN_C int __sprintf_chk(char *, int, size_t, const char *, ...);
EXTERN_C int __snprintf_chk(char *, size_t, int, size_t, const char *, ...);
EXTERN_C ssize_t __read_chk(int, void *, size_t, size_t);

// Larger than what a string can become whose end is missing.
static char text[256], many[1 << 16];
static wchar_t wide[128], wide_many[1 << 14];
static int input[2];

// A string of so many characters.
static char *string_of(long length)
{
    memset(text, 'Z', (size_t)length);
    text[length] = 0;
    return (char *)opaque(text);
}
static wchar_t *wide_of(long length)
{
    wmemset(wide, L'Z', (size_t)length);
    wide[length] = 0;
    return (wchar_t *)opaque(wide);
}
// A descriptor from which so many bytes can be read.
static int pipe_of(long bytes)
{
    CHECK(pipe(input) == 0);
    CHECK(write(input[1], string_of(bytes), (size_t)bytes) == bytes);
    return input[0];
}
static int socket_of(long bytes)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, input) == 0);
    CHECK(write(input[1], string_of(bytes), (size_t)bytes) == bytes);
    return input[0];
}
static int file_of(long bytes)
{
    input[0] = memfd_create("file", 0);
    input[1] = dup(input[0]);
    CHECK(write(input[0], string_of(bytes), (size_t)bytes) == bytes && lseek(input[0], 0, SEEK_SET) == 0);
    return input[0];
}
static void close_all(void)
{
    close(input[0]);
    close(input[1]);
}
static FILE *stream_of(long bytes)
{
    FILE *file = fdopen(pipe_of(bytes), "r");
    CHECK(file != NULL);
    close(input[1]);
    return file;
}

// A call that writes N bytes from TO on.
#define WRITES(NAME, ...)                                                                       \
    CALL_SITE void calls_##NAME(char *to, long n)                                               \
    {                                                                                           \
        __VA_ARGS__;                                                                            \
        opaque(NULL);                                                                           \
    }                                                                                           \
    static void NAME##_run(const struct wrong *one, int is_bad) { run(one, is_bad, calls_##NAME, 0); }
// One that reads N bytes of FROM, or a string there, to its end.
#define READS_UNITS(NAME, UNIT, ...)                                                            \
    CALL_SITE void calls_##NAME(char *from, long n)                                             \
    {                                                                                           \
        __VA_ARGS__;                                                                            \
        opaque(NULL);                                                                           \
    }                                                                                           \
    static void NAME##_run(const struct wrong *one, int is_bad) { run(one, is_bad, calls_##NAME, UNIT); }
#define READS(NAME, ...) READS_UNITS(NAME, 1, __VA_ARGS__)
#define READS_WIDE(NAME, ...) READS_UNITS(NAME, 4, __VA_ARGS__)

// What is to be read is a string, whose last unit is its end, unless that is what is wrong.
static void fill(char *block, long unit, int has_end)
{
    for (long i = 0; i < SIZE; i++)
        block[i] = unit != 4 || i % 4 == 0 ? 'Z' : 0;
    for (long i = SIZE - unit; has_end && i < SIZE; i++)
        block[i] = 0;
}

static void run(const struct wrong *one, int is_bad, void (*calls)(char *, long), long unit)
{
    struct between all = put_between(SIZE);
    char *block = (char *)all.block;
    int is_after_free = strcmp(one->kind, AFTER_FREE) == 0;
    fill(block, unit, unit != 0 && (!is_bad || is_after_free));
    if (is_after_free) {
        if (!is_bad)
            calls(block, SIZE);
        ends(block);
        if (is_bad)
            calls(block, SIZE);
        ends(all.before);
        ends(all.after);
        return;
    }
    if (!is_bad)
        calls(block, SIZE);
    else if (one->offset < 0)
        calls(block + one->offset, one->bytes);
    else
        calls(block, SIZE + one->bytes);
    end_between(all);
}

WRITES(memset, memset(to, 0x5A, (size_t)n))
WRITES(memcpy, memcpy(to, many, (size_t)n))
WRITES(memmove, memmove(to, many, (size_t)n))
WRITES(mempcpy, mempcpy(to, many, (size_t)n))
WRITES(memccpy, memccpy(to, string_of(n - 1), 0, sizeof text))
WRITES(bzero, bzero(to, (size_t)n))
WRITES(explicit_bzero, explicit_bzero(to, (size_t)n))
WRITES(bcopy, bcopy(many, to, (size_t)n))
WRITES(strcpy, strcpy(to, string_of(n - 1)))
WRITES(stpcpy, stpcpy(to, string_of(n - 1)))
WRITES(strncpy, strncpy(to, "short", (size_t)n))
WRITES(stpncpy, stpncpy(to, "short", (size_t)n))
WRITES(strcat, (strcpy(to, "begin"), strcat(to, string_of(n - 6))))
WRITES(strncat, (strcpy(to, "begin"), strncat(to, string_of(100), (size_t)n - 6)))
WRITES(sprintf, sprintf(to, "%s", string_of(n - 1)))
WRITES(sprintf_number, (memset(to, 0, SIZE), sprintf(to, "%0*d", (int)n - 1, 17)))
WRITES(snprintf, snprintf(to, (size_t)n, "%s", string_of(200)))
WRITES(printf_n, {
    // The number of characters so far, an int, goes where its last byte is byte N.
    char line[8];
    snprintf(line, sizeof line, "abc%n", (int *)(to + n - 4));
})
WRITES(wcscpy, wcscpy((wchar_t *)to, wide_of(n / 4 - 1)))
WRITES(wcpcpy, wcpcpy((wchar_t *)to, wide_of(n / 4 - 1)))
WRITES(wcsncpy, wcsncpy((wchar_t *)to, L"short", (size_t)n / 4))
WRITES(wcscat, (wcscpy((wchar_t *)to, L"ab"), wcscat((wchar_t *)to, wide_of(n / 4 - 3))))
WRITES(wmemset, wmemset((wchar_t *)to, L'Z', (size_t)n / 4))
WRITES(wmemcpy, wmemcpy((wchar_t *)to, wide_many, (size_t)n / 4))
WRITES(wmemmove, wmemmove((wchar_t *)to, wide_many, (size_t)n / 4))
WRITES(swprintf, swprintf((wchar_t *)to, (size_t)n / 4, L"%ls", wide_of(n / 4 - 1)))
WRITES(memcpy_chk, __memcpy_chk(to, many, (size_t)n, (size_t)-1))
WRITES(memmove_chk, __memmove_chk(to, many, (size_t)n, (size_t)-1))
WRITES(memset_chk, __memset_chk(to, 0x5A, (size_t)n, (size_t)-1))
WRITES(strcpy_chk, __strcpy_chk(to, string_of(n - 1), (size_t)-1))
WRITES(strcat_chk, (strcpy(to, "begin"), __strcat_chk(to, string_of(n - 6), (size_t)-1)))
WRITES(strncpy_chk, __strncpy_chk(to, "short", (size_t)n, (size_t)-1))
WRITES(sprintf_chk, __sprintf_chk(to, 1, (size_t)-1, "%s", string_of(n - 1)))
WRITES(snprintf_chk, __snprintf_chk(to, (size_t)n, 1, (size_t)-1, "%s", string_of(200)))
WRITES(read, {
    int from = pipe_of(n);
    CHECK(read(from, to, (size_t)n) <= n);
    close_all();
})
WRITES(read_chk, {
    int from = pipe_of(n);
    CHECK(__read_chk(from, to, (size_t)n, (size_t)-1) <= n);
    close_all();
})
WRITES(pread, {
    int from = file_of(n);
    CHECK(pread(from, to, (size_t)n, 0) <= n);
    close_all();
})
WRITES(readv, {
    int from = pipe_of(n);
    struct iovec parts[2] = {{to, 8}, {to + 8, (size_t)n - 8}};
    CHECK(readv(from, parts, 2) <= n);
    close_all();
})
WRITES(recv, {
    int from = socket_of(n);
    CHECK(recv(from, to, (size_t)n, 0) <= n);
    close_all();
})
WRITES(recvfrom, {
    int from = socket_of(n);
    CHECK(recvfrom(from, to, (size_t)n, 0, NULL, NULL) <= n);
    close_all();
})
WRITES(fread, {
    FILE *file = stream_of(n);
    CHECK(fread(to, 1, (size_t)n, file) <= (size_t)n);
    fclose(file);
})
WRITES(fgets, {
    FILE *file = stream_of(200);
    CHECK(fgets(to, (int)n, file) == to);
    fclose(file);
})
WRITES(getline, {
    // It is told that there is more room than there is. A longer line would have it grow.
    FILE *file = stream_of(n - 1);
    char *line = to;
    size_t room = 200;
    CHECK(getline(&line, &room, file) == n - 1 && line == to);
    fclose(file);
})
WRITES(fgetws, {
    FILE *file = stream_of(200);
    CHECK(fgetws((wchar_t *)to, (int)n / 4, file) == (wchar_t *)to);
    fclose(file);
})
WRITES(sscanf, sscanf(string_of(n - 1), "%s", to))
WRITES(strftime, {
    struct tm when = {0};
    CHECK(strftime(to, (size_t)n, string_of(n - 1), &when) == (size_t)n - 1);
})
WRITES(inet_ntop, {
    // 40 characters and the end.
    struct in6_addr address;
    memset(&address, 0xEE, sizeof address);
    inet_ntop(AF_INET6, &address, to + (n - 40), 46);
})
WRITES(swab, swab(many, to, n))
WRITES(readlink, {
    CHECK(symlink(string_of(n), "a link") == 0);
    CHECK(readlink("a link", to, (size_t)n) <= n);
    unlink("a link");
})

READS(memcpy_source, memcpy(many, from, (size_t)n))
READS(memmove_source, memmove(many, from, (size_t)n))
READS(memcmp, sink += (unsigned long)memcmp(from, many, (size_t)n))
READS(memchr, sink += (unsigned long)memchr(from, 'q', (size_t)n))
READS(strlen, sink += strlen(from))
READS(strnlen, sink += strnlen(from, (size_t)n))
READS(strcpy_source, strcpy(many, from))
READS(strncpy_source, strncpy(many, from, (size_t)n))
READS(strcat_source, (many[0] = 0, strcat(many, from)))
READS(strchr, sink += (unsigned long)strchr(from, 'q'))
READS(strrchr, sink += (unsigned long)strrchr(from, 'q'))
READS(strcmp, sink += (unsigned long)strcmp(from, string_of(100)))
READS(strncmp, sink += (unsigned long)strncmp(from, string_of(100), 100))
READS(strdup, free(strdup(from)))
READS(strstr, sink += (unsigned long)strstr(from, "quite"))
READS(strspn, sink += strspn(from, "Z"))
READS_WIDE(wcslen, sink += wcslen((wchar_t *)from))
READS_WIDE(wmemcpy_source, wmemcpy(wide_many, (wchar_t *)from, (size_t)n / 4))
READS_WIDE(wcscpy_source, wcscpy(wide_many, (wchar_t *)from))
READS(sprintf_source, sprintf(many, "%s", from))
READS(snprintf_precision, snprintf(many, sizeof many, "%.*s", (int)n, from))
READS(swprintf_source, swprintf(wide_many, 1 << 14, L"%s", from))
READS(write, {
    CHECK(pipe(input) == 0);
    sink += (unsigned long)write(input[1], from, (size_t)n);
    close_all();
})
READS(send, {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, input) == 0);
    sink += (unsigned long)send(input[1], from, (size_t)n, 0);
    close_all();
})
READS(writev, {
    struct iovec parts[2] = {{from, 8}, {from + 8, (size_t)n - 8}};
    CHECK(pipe(input) == 0);
    sink += (unsigned long)writev(input[1], parts, 2);
    close_all();
})
READS(pwrite, {
    int to = file_of(0);
    sink += (unsigned long)pwrite(to, from, (size_t)n, 0);
    close_all();
})
READS(fwrite, {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL);
    sink += fwrite(from, 1, (size_t)n, file);
    fclose(file);
})
READS(fputs, {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL);
    sink += (unsigned long)fputs(from, file);
    fclose(file);
})
READS(fprintf_source, {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL);
    sink += (unsigned long)fprintf(file, "%s", from);
    fclose(file);
})
READS(strtol, sink += (unsigned long)strtol(from, NULL, 36))

// By one unit, far, before the begin, and in a freed block.
#define BY(NAME, WAY, KIND, ACCESS, BY, OFFSET, BYTES) \
    {#NAME WAY, NAME##_run, "calls_" #NAME, KIND, ACCESS, BY, SIZE, OFFSET, BYTES, 0, 0},
#define W(NAME, UNIT) BY(NAME, "", OVERFLOW, "write", #NAME, SIZE, UNIT)
#define W_OF(NAME, CALLED, UNIT) BY(NAME, "", OVERFLOW, "write", CALLED, SIZE, UNIT)
#define W_FAR(NAME) BY(NAME, "_far", OVERFLOW, "write", #NAME, SIZE, 60)
#define W_BEFORE(NAME) BY(NAME, "_before", UNDERFLOW, "write", #NAME, -8, 8)
#define W_FREED(NAME) BY(NAME, "_freed", AFTER_FREE, "write", #NAME, 0, SIZE)
#define R(NAME, CALLED, UNIT) BY(NAME, "", OVERFLOW, "read", CALLED, SIZE, UNIT)
#define R_FAR(NAME, CALLED) BY(NAME, "_far", OVERFLOW, "read", CALLED, SIZE, 60)
#define R_BEFORE(NAME, CALLED) BY(NAME, "_before", UNDERFLOW, "read", CALLED, -8, 8)
#define R_FREED(NAME, CALLED) BY(NAME, "_freed", AFTER_FREE, "read", CALLED, 0, SIZE)

static const struct wrong CASES[] = {
    W(memset, 1) W(memcpy, 1) W(memmove, 1) W(mempcpy, 1) W(memccpy, 1) W(bzero, 1) W(explicit_bzero, 1) W(bcopy, 1)
    W(strcpy, 1) W(stpcpy, 1) W(strncpy, 1) W(stpncpy, 1) W(strcat, 1) W(strncat, 1)
    W(sprintf, 1) W_OF(sprintf_number, "sprintf", 1) W(snprintf, 1) W_OF(printf_n, "snprintf", 1)
    W(wcscpy, 4) W(wcpcpy, 4) W(wcsncpy, 4) W(wcscat, 4) W(wmemset, 4) W(wmemcpy, 4) W(wmemmove, 4) W(swprintf, 4)
    W_OF(memcpy_chk, "__memcpy_chk", 1) W_OF(memmove_chk, "__memmove_chk", 1) W_OF(memset_chk, "__memset_chk", 1)
    W_OF(strcpy_chk, "__strcpy_chk", 1) W_OF(strcat_chk, "__strcat_chk", 1) W_OF(strncpy_chk, "__strncpy_chk", 1)
    W_OF(sprintf_chk, "__sprintf_chk", 1) W_OF(snprintf_chk, "__snprintf_chk", 1) W_OF(read_chk, "__read_chk", 1)
    W(read, 1) W(pread, 1) W(readv, 1) W(recv, 1) W(recvfrom, 1) W(fread, 1) W(fgets, 1) W(getline, 1) W(fgetws, 4)
    W(sscanf, 1) W(strftime, 1) W(inet_ntop, 1) W(swab, 2) W(readlink, 1)
    W_FAR(memset) W_FAR(memcpy) W_FAR(memmove) W_FAR(strcpy) W_FAR(strcat) W_FAR(sprintf) W_FAR(wcscpy) W_FAR(read) W_FAR(pread)
    W_FAR(fread) W_FAR(fgets) W_FAR(recv)
    W_BEFORE(memset) W_BEFORE(memcpy) W_BEFORE(strcpy) W_BEFORE(sprintf) W_BEFORE(wmemset) W_BEFORE(read)
    W_FREED(memset) W_FREED(memcpy) W_FREED(memmove) W_FREED(strcpy) W_FREED(strncpy) W_FREED(sprintf) W_FREED(snprintf)
    W_FREED(wcscpy) W_FREED(wmemset) W_FREED(read) W_FREED(pread) W_FREED(recv) W_FREED(fread) W_FREED(fgets)
    R(memcpy_source, "memcpy", 1) R(memmove_source, "memmove", 1) R(memcmp, "memcmp", 1) R(memchr, "memchr", 1) R(strlen, "strlen", 1)
    R(strnlen, "strnlen", 1) R(strcpy_source, "strcpy", 1) R(strncpy_source, "strncpy", 1) R(strcat_source, "strcat", 1)
    R(strchr, "strchr", 1) R(strrchr, "strrchr", 1) R(strcmp, "strcmp", 1) R(strncmp, "strncmp", 1) R(strdup, "strdup", 1)
    R(strstr, "strstr", 1) R(strspn, "strspn", 1) R(wcslen, "wcslen", 4) R(wmemcpy_source, "wmemcpy", 4) R(wcscpy_source, "wcscpy", 4)
    R(sprintf_source, "sprintf", 1) R(snprintf_precision, "snprintf", 1) R(swprintf_source, "swprintf", 1)
    R(fprintf_source, "fprintf", 1) R(write, "write", 1) R(send, "send", 1) R(writev, "writev", 1) R(pwrite, "pwrite", 1)
    R(fwrite, "fwrite", 1) R(fputs, "fputs", 1) R(strtol, "strtol", 1)
    R_FAR(memcpy_source, "memcpy") R_FAR(memmove_source, "memmove") R_FAR(memcmp, "memcmp") R_FAR(write, "write") R_FAR(send, "send")
    R_BEFORE(memcpy_source, "memcpy") R_BEFORE(write, "write")
    R_FREED(memcpy_source, "memcpy") R_FREED(strlen, "strlen") R_FREED(strcpy_source, "strcpy") R_FREED(strcmp, "strcmp")
    R_FREED(strdup, "strdup") R_FREED(wcslen, "wcslen") R_FREED(sprintf_source, "sprintf") R_FREED(write, "write") R_FREED(send, "send")
    R_FREED(fwrite, "fwrite")
};
MAIN(CASES)
