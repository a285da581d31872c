// Each function of the C library whose calls are judged, called once with one unit more than its block has. It says at first what it will
// do: a line for each with the function, whether it reads or writes, and how many bytes; 0: more than the block has. Then it is quiet.
//
//     every_call [good]      good: with larger blocks, so that nothing is wrong
#define _GNU_SOURCE
#include "../../victims/victim.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <time.h>
#include <wchar.h>

enum { SIZE = 48, UNITS = SIZE / 4 };
#define ALL ((size_t)-1)

EXTERN_C char *__strdup(const char *), *__strndup(const char *, size_t), *__strtok_r(char *, const char *, char **);
EXTERN_C ssize_t __getdelim(char **, size_t *, int, FILE *);
EXTERN_C void *__memcpy_chk(void *, const void *, size_t, size_t), *__memmove_chk(void *, const void *, size_t, size_t);
EXTERN_C void *__mempcpy_chk(void *, const void *, size_t, size_t), *__memset_chk(void *, int, size_t, size_t);
EXTERN_C void __explicit_bzero_chk(void *, size_t, size_t);
EXTERN_C char *__strcpy_chk(char *, const char *, size_t), *__stpcpy_chk(char *, const char *, size_t);
EXTERN_C char *__strncpy_chk(char *, const char *, size_t, size_t), *__stpncpy_chk(char *, const char *, size_t, size_t);
EXTERN_C char *__strcat_chk(char *, const char *, size_t), *__strncat_chk(char *, const char *, size_t, size_t);
typedef wchar_t *wide_copy(wchar_t *, const wchar_t *, size_t), *wide_part(wchar_t *, const wchar_t *, size_t, size_t);
EXTERN_C wide_copy __wcscpy_chk, __wcpcpy_chk, __wcscat_chk;
EXTERN_C wide_part __wcsncpy_chk, __wcpncpy_chk, __wcsncat_chk, __wmemcpy_chk, __wmempcpy_chk, __wmemmove_chk;
EXTERN_C wchar_t *__wmemset_chk(wchar_t *, wchar_t, size_t, size_t), *__fgetws_chk(wchar_t *, size_t, int, FILE *);
EXTERN_C ssize_t __read_chk(int, void *, size_t, size_t), __pread_chk(int, void *, size_t, off_t, size_t);
EXTERN_C ssize_t __pread64_chk(int, void *, size_t, off_t, size_t), __recv_chk(int, void *, size_t, size_t, int);
EXTERN_C ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, void *, void *);
EXTERN_C ssize_t __readlink_chk(const char *, char *, size_t, size_t);
EXTERN_C char *__getcwd_chk(char *, size_t, size_t), *__fgets_chk(char *, size_t, int, FILE *);
EXTERN_C char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
EXTERN_C size_t __fread_chk(void *, size_t, size_t, size_t, FILE *), __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
EXTERN_C int __printf_chk(int, const char *, ...), __fprintf_chk(FILE *, int, const char *, ...), __dprintf_chk(int, int, const char *, ...);
EXTERN_C int __sprintf_chk(char *, int, size_t, const char *, ...), __snprintf_chk(char *, size_t, int, size_t, const char *, ...);
EXTERN_C int __asprintf_chk(char **, int, const char *, ...);
EXTERN_C void __syslog_chk(int, int, const char *, ...), __vsyslog_chk(int, int, const char *, va_list);
EXTERN_C int __vprintf_chk(int, const char *, va_list), __vfprintf_chk(FILE *, int, const char *, va_list);
EXTERN_C int __vdprintf_chk(int, int, const char *, va_list), __vsprintf_chk(char *, int, size_t, const char *, va_list);
EXTERN_C int __vsnprintf_chk(char *, size_t, int, size_t, const char *, va_list), __vasprintf_chk(char **, int, const char *, va_list);
EXTERN_C int __wprintf_chk(int, const wchar_t *, ...), __fwprintf_chk(FILE *, int, const wchar_t *, ...);
EXTERN_C int __vwprintf_chk(int, const wchar_t *, va_list), __vfwprintf_chk(FILE *, int, const wchar_t *, va_list);
EXTERN_C int __swprintf_chk(wchar_t *, size_t, int, size_t, const wchar_t *, ...);
EXTERN_C int __vswprintf_chk(wchar_t *, size_t, int, size_t, const wchar_t *, va_list);

static char many[1 << 16], text[SIZE + 1], longer[101];
static wchar_t wide_many[1 << 14], wide_text[UNITS + 1], wide_longer[101];
static FILE *nowhere, *wide_nowhere;
static volatile unsigned long sink;
static char *made;

static int input(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], longer, 100) == 100 && close(ends[1]) == 0);
    return ends[0];
}
static int file(void)
{
    int to = memfd_create("file", 0);
    CHECK(write(to, longer, 100) == 100 && lseek(to, 0, SEEK_SET) == 0);
    return to;
}
static int peer(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && write(ends[1], longer, 100) == 100);
    return ends[0];
}
static FILE *stream(void) { return fdopen(input(), "r"); }
static FILE *line(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], longer, SIZE) == SIZE && close(ends[1]) == 0);
    return fdopen(ends[0], "r");
}
static struct iovec *part(char *p)
{
    static struct iovec all;
    all.iov_base = p;
    all.iov_len = SIZE + 1;
    return &all;
}
static struct msghdr *message(char *p)
{
    static struct msghdr one;
    one.msg_iov = part(p);
    one.msg_iovlen = 1;
    return &one;
}

#define LISTED(NAME, KINDS, CALL)                        \
    static __attribute__((noinline)) void NAME KINDS     \
    {                                                    \
        va_list all;                                     \
        va_start(all, format);                           \
        CALL;                                            \
        va_end(all);                                     \
    }
LISTED(v_printf, (const char *format, ...), vprintf(format, all))
LISTED(v_fprintf, (const char *format, ...), vfprintf(nowhere, format, all))
LISTED(v_dprintf, (const char *format, ...), vdprintf(1, format, all))
LISTED(v_sprintf, (char *p, const char *format, ...), vsprintf(p, format, all))
LISTED(v_snprintf, (char *p, const char *format, ...), vsnprintf(p, 60, format, all))
LISTED(v_asprintf, (const char *format, ...), CHECK(vasprintf(&made, format, all) > 0))
LISTED(v_syslog, (const char *format, ...), vsyslog(LOG_DEBUG, format, all))
LISTED(v_printf_chk, (const char *format, ...), __vprintf_chk(1, format, all))
LISTED(v_fprintf_chk, (const char *format, ...), __vfprintf_chk(nowhere, 1, format, all))
LISTED(v_dprintf_chk, (const char *format, ...), __vdprintf_chk(1, 1, format, all))
LISTED(v_sprintf_chk, (char *p, const char *format, ...), __vsprintf_chk(p, 1, ALL, format, all))
LISTED(v_snprintf_chk, (char *p, const char *format, ...), __vsnprintf_chk(p, 60, 1, ALL, format, all))
LISTED(v_asprintf_chk, (const char *format, ...), CHECK(__vasprintf_chk(&made, 1, format, all) > 0))
LISTED(v_syslog_chk, (const char *format, ...), __vsyslog_chk(LOG_DEBUG, 1, format, all))
LISTED(v_wprintf, (const wchar_t *format, ...), vwprintf(format, all))
LISTED(v_fwprintf, (const wchar_t *format, ...), vfwprintf(wide_nowhere, format, all))
LISTED(v_wprintf_chk, (const wchar_t *format, ...), __vwprintf_chk(1, format, all))
LISTED(v_fwprintf_chk, (const wchar_t *format, ...), __vfwprintf_chk(wide_nowhere, 1, format, all))
LISTED(v_swprintf, (wchar_t * w, const wchar_t *format, ...), vswprintf(w, 60, format, all))
LISTED(v_swprintf_chk, (wchar_t * w, const wchar_t *format, ...), __vswprintf_chk(w, 60, 1, ALL, format, all))

// W: it writes. R: it reads, and the block has no zero. In front of the call: how many bytes.
#define CASES                                                                                                            \
    W(memcpy, 49, memcpy(p, many, 49)) W(memmove, 49, memmove(p, many, 49)) W(mempcpy, 49, mempcpy(p, many, 49))          \
    W(bcopy, 49, bcopy(many, p, 49)) W(memset, 49, memset(p, 1, 49)) W(bzero, 49, bzero(p, 49))                           \
    W(explicit_bzero, 49, explicit_bzero(p, 49)) W(memccpy, 49, memccpy(p, text, 0, 100)) R(memcmp, 49, I(memcmp(p, many, 49))) \
    R(bcmp, 49, I(bcmp(many, p, 49))) R(memchr, 49, A(memchr(p, 'q', 49))) R(rawmemchr, 49, A(rawmemchr(p, 'q')))         \
    R(memrchr, 49, A(memrchr(p, 'q', 49))) R(memmem, 49, A(memmem(p, 49, "qq", 2))) W(swab, 50, swab(many, p, 50))        \
    W(__memcpy_chk, 49, __memcpy_chk(p, many, 49, ALL)) W(__memmove_chk, 49, __memmove_chk(p, many, 49, ALL))             \
    W(__mempcpy_chk, 49, __mempcpy_chk(p, many, 49, ALL)) W(__memset_chk, 49, __memset_chk(p, 1, 49, ALL))                \
    W(__explicit_bzero_chk, 49, __explicit_bzero_chk(p, 49, ALL))                                                         \
    R(strlen, 49, I(strlen(p))) R(strnlen, 49, I(strnlen(p, 49))) W(strcpy, 49, strcpy(p, text)) W(stpcpy, 49, stpcpy(p, text)) \
    W(strncpy, 49, strncpy(p, "a", 49)) W(stpncpy, 49, stpncpy(p, "a", 49)) W(strcat, 49, strcat(p, text))                \
    W(strncat, 49, strncat(p, longer, 48)) R(strdup, 49, A(strdup(p))) R(__strdup, 49, A(__strdup(p)))                    \
    R(strndup, 49, A(strndup(p, 49))) R(__strndup, 49, A(__strndup(p, 49))) R(strchr, 49, A(strchr(p, 'q')))              \
    R(index, 49, A(index(p, 'q'))) R(strchrnul, 49, A(strchrnul(p, 'q'))) R(strrchr, 49, A(strrchr(p, 'q')))              \
    R(rindex, 49, A(rindex(p, 'q'))) R(strcmp, 49, I(strcmp(p, longer))) R(strncmp, 49, I(strncmp(longer, p, 49)))        \
    R(strcasecmp, 49, I(strcasecmp(p, longer))) R(strncasecmp, 49, I(strncasecmp(p, longer, 100))) R(strcoll, 49, I(strcoll(p, longer))) \
    R(strstr, 49, A(strstr(p, "Zq"))) R(strcasestr, 49, A(strcasestr(p, "zq"))) R(strspn, 49, I(strspn(p, "Z")))          \
    R(strcspn, 49, I(strcspn(p, "q"))) R(strpbrk, 49, A(strpbrk(p, "q"))) R(strtok, 49, A(strtok(p, "q")))                \
    R(strtok_r, 49, A(strtok_r(p, "q", &rest))) R(__strtok_r, 49, A(__strtok_r(p, "q", &rest)))                           \
    R(strsep, 49, (rest = p, A(strsep(&rest, "q"))))                                                                      \
    W(__strcpy_chk, 49, __strcpy_chk(p, text, ALL)) W(__stpcpy_chk, 49, __stpcpy_chk(p, text, ALL))                       \
    W(__strncpy_chk, 49, __strncpy_chk(p, "a", 49, ALL)) W(__stpncpy_chk, 49, __stpncpy_chk(p, "a", 49, ALL))             \
    W(__strcat_chk, 49, __strcat_chk(p, text, ALL)) W(__strncat_chk, 49, __strncat_chk(p, longer, 48, ALL))               \
    R(strtol, 49, I(strtol(p, NULL, 36))) R(strtoul, 49, I(strtoul(p, &rest, 36))) R(strtoll, 49, I(strtoll(p, NULL, 36))) \
    R(strtoull, 49, I(strtoull(p, &rest, 36))) R(strtoimax, 49, I(strtoimax(p, NULL, 36))) R(strtoumax, 49, I(strtoumax(p, NULL, 36))) \
    R(atoi, 49, (memset(p, '1', SIZE), I(atoi(p)))) R(atol, 49, (memset(p, '1', SIZE), I(atol(p))))                       \
    R(atoll, 49, (memset(p, '1', SIZE), I(atoll(p))))                                                                     \
    L(wcslen, 52, I(wcslen(w))) L(wcsnlen, 52, I(wcsnlen(w, 13))) W(wcscpy, 52, wcscpy(w, wide_text)) W(wcpcpy, 52, wcpcpy(w, wide_text)) \
    W(wcsncpy, 52, wcsncpy(w, L"a", 13)) W(wcpncpy, 52, wcpncpy(w, L"a", 13)) W(wcscat, 52, wcscat(w, wide_text))         \
    W(wcsncat, 52, wcsncat(w, wide_longer, 12)) L(wcsdup, 52, A(wcsdup(w))) L(wcschr, 52, A(wcschr(w, 'q')))              \
    L(wcsrchr, 52, A(wcsrchr(w, 'q'))) L(wcscmp, 52, I(wcscmp(w, wide_longer))) L(wcsncmp, 52, I(wcsncmp(w, wide_longer, 13))) \
    L(wcsstr, 52, A(wcsstr(w, L"Zq"))) W(wmemset, 52, wmemset(w, 1, 13)) W(wmemcpy, 52, wmemcpy(w, wide_many, 13))        \
    W(wmempcpy, 52, wmempcpy(w, wide_many, 13)) W(wmemmove, 52, wmemmove(w, wide_many, 13)) L(wmemcmp, 52, I(wmemcmp(w, wide_many, 13))) \
    L(wmemchr, 52, A(wmemchr(w, 'q', 13))) W(__wcscpy_chk, 52, __wcscpy_chk(w, wide_text, ALL))                           \
    W(__wcpcpy_chk, 52, __wcpcpy_chk(w, wide_text, ALL)) W(__wcsncpy_chk, 52, __wcsncpy_chk(w, L"a", 13, ALL))            \
    W(__wcpncpy_chk, 52, __wcpncpy_chk(w, L"a", 13, ALL)) W(__wcscat_chk, 52, __wcscat_chk(w, wide_text, ALL))            \
    W(__wcsncat_chk, 52, __wcsncat_chk(w, wide_longer, 12, ALL)) W(__wmemset_chk, 52, __wmemset_chk(w, 1, 13, ALL))       \
    W(__wmemcpy_chk, 52, __wmemcpy_chk(w, wide_many, 13, ALL)) W(__wmempcpy_chk, 52, __wmempcpy_chk(w, wide_many, 13, ALL)) \
    W(__wmemmove_chk, 52, __wmemmove_chk(w, wide_many, 13, ALL))                                                          \
    W(read, 49, I(read(input(), p, 49))) W(pread, 49, I(pread(file(), p, 49, 0))) W(pread64, 49, I(pread64(file(), p, 49, 0))) \
    W(readv, 49, I(readv(input(), part(p), 1))) W(preadv, 49, I(preadv(file(), part(p), 1, 0)))                           \
    W(preadv64, 49, I(preadv64(file(), part(p), 1, 0))) W(recv, 49, I(recv(peer(), p, 49, 0)))                            \
    W(recvfrom, 49, I(recvfrom(peer(), p, 49, 0, NULL, NULL))) W(recvmsg, 49, I(recvmsg(peer(), message(p), 0)))          \
    R(write, 49, I(write(file(), p, 49))) R(pwrite, 49, I(pwrite(file(), p, 49, 0))) R(pwrite64, 49, I(pwrite64(file(), p, 49, 0))) \
    R(writev, 49, I(writev(file(), part(p), 1))) R(pwritev, 49, I(pwritev(file(), part(p), 1, 0)))                        \
    R(pwritev64, 49, I(pwritev64(file(), part(p), 1, 0))) R(send, 49, I(send(peer(), p, 49, 0)))                          \
    R(sendto, 49, I(sendto(peer(), p, 49, 0, NULL, 0))) R(sendmsg, 49, I(sendmsg(peer(), message(p), 0)))                 \
    W(readlink, 49, I(readlink("a link", p, 49))) W(readlinkat, 49, I(readlinkat(AT_FDCWD, "a link", p, 49)))             \
    W(getrandom, 49, I(getrandom(p, 49, 0))) W(getcwd, 0, A(getcwd(p, 4096)))                                             \
    W(inet_ntop, 40, A(inet_ntop(AF_INET6, "................", p + 9, 46))) W(strftime, 49, I(strftime(p, 60, text, &moment))) \
    W(__read_chk, 49, I(__read_chk(input(), p, 49, ALL))) W(__pread_chk, 49, I(__pread_chk(file(), p, 49, 0, ALL)))       \
    W(__pread64_chk, 49, I(__pread64_chk(file(), p, 49, 0, ALL))) W(__recv_chk, 49, I(__recv_chk(peer(), p, 49, ALL, 0))) \
    W(__recvfrom_chk, 49, I(__recvfrom_chk(peer(), p, 49, ALL, 0, NULL, NULL)))                                           \
    W(__readlink_chk, 49, I(__readlink_chk("a link", p, 49, ALL))) W(__getcwd_chk, 0, A(__getcwd_chk(p, 4096, ALL)))      \
    W(fread, 49, I(fread(p, 1, 49, stream()))) W(fread_unlocked, 49, I(fread_unlocked(p, 1, 49, stream())))               \
    W(__fread_chk, 49, I(__fread_chk(p, ALL, 1, 49, stream()))) W(__fread_unlocked_chk, 49, I(__fread_unlocked_chk(p, ALL, 1, 49, stream()))) \
    R(fwrite, 49, I(fwrite(p, 7, 7, nowhere))) R(fwrite_unlocked, 49, I(fwrite_unlocked(p, 7, 7, nowhere)))               \
    W(fgets, 49, A(fgets(p, 49, stream()))) W(fgets_unlocked, 49, A(fgets_unlocked(p, 49, stream())))                     \
    W(__fgets_chk, 49, A(__fgets_chk(p, ALL, 49, stream()))) W(__fgets_unlocked_chk, 49, A(__fgets_unlocked_chk(p, ALL, 49, stream()))) \
    W(fgetws, 52, A(fgetws(w, 13, stream()))) W(__fgetws_chk, 52, A(__fgetws_chk(w, ALL, 13, stream())))                  \
    W(getline, 49, (rest = p, I(getline(&rest, &room, line())))) W(getdelim, 49, (rest = p, I(getdelim(&rest, &room, 'x', line())))) \
    W(__getdelim, 49, (rest = p, I(__getdelim(&rest, &room, 'x', line()))))                                               \
    R(fputs, 49, I(fputs(p, nowhere))) R(fputs_unlocked, 49, I(fputs_unlocked(p, nowhere))) R(puts, 49, I(puts(p)))       \
    L(fputws, 52, I(fputws(w, wide_nowhere)))                                                                             \
    R(printf, 49, I(printf("%d %f %s", 1, 2.5, p))) R(fprintf, 49, I(fprintf(nowhere, "%2$s %1$d", 1, p)))                \
    R(dprintf, 49, I(dprintf(1, "%.49s", p))) W(sprintf, 49, I(sprintf(p, "%048d", 5))) W(snprintf, 49, I(snprintf(p, 49, "%s", longer))) \
    R(asprintf, 49, I(asprintf(&made, "%s", p))) R(syslog, 49, syslog(LOG_DEBUG, "%s", p)) R(vprintf, 49, v_printf("%s", p)) \
    R(vfprintf, 49, v_fprintf("%d%d%d%d%d%d%s", 1, 2, 3, 4, 5, 6, p)) R(vdprintf, 49, v_dprintf("%s", p))                 \
    W(vsprintf, 49, v_sprintf(p, "%s", text)) W(vsnprintf, 49, v_snprintf(p, "%s", text)) R(vasprintf, 49, v_asprintf("%s", p)) \
    R(vsyslog, 49, v_syslog("%s", p)) R(__printf_chk, 49, I(__printf_chk(1, "%s", p))) R(__fprintf_chk, 49, I(__fprintf_chk(nowhere, 1, "%s", p))) \
    R(__dprintf_chk, 49, I(__dprintf_chk(1, 1, "%s", p))) W(__sprintf_chk, 49, I(__sprintf_chk(p, 1, ALL, "%s", text)))   \
    W(__snprintf_chk, 49, I(__snprintf_chk(p, 49, 1, ALL, "%s", longer))) R(__asprintf_chk, 49, I(__asprintf_chk(&made, 1, "%s", p))) \
    R(__syslog_chk, 49, __syslog_chk(LOG_DEBUG, 1, "%s", p)) R(__vprintf_chk, 49, v_printf_chk("%s", p))                  \
    R(__vfprintf_chk, 49, v_fprintf_chk("%s", p)) R(__vdprintf_chk, 49, v_dprintf_chk("%s", p))                           \
    W(__vsprintf_chk, 49, v_sprintf_chk(p, "%s", text)) W(__vsnprintf_chk, 49, v_snprintf_chk(p, "%s", text))             \
    R(__vasprintf_chk, 49, v_asprintf_chk("%s", p)) R(__vsyslog_chk, 49, v_syslog_chk("%s", p))                           \
    L(wprintf, 52, I(wprintf(L"%ls", w))) L(fwprintf, 52, I(fwprintf(wide_nowhere, L"%ls", w)))                           \
    L(__wprintf_chk, 52, I(__wprintf_chk(1, L"%ls", w))) L(__fwprintf_chk, 52, I(__fwprintf_chk(wide_nowhere, 1, L"%S", w))) \
    L(vwprintf, 52, v_wprintf(L"%ls", w)) L(vfwprintf, 52, v_fwprintf(L"%ls", w)) L(__vwprintf_chk, 52, v_wprintf_chk(L"%ls", w)) \
    L(__vfwprintf_chk, 52, v_fwprintf_chk(L"%ls", w)) W(swprintf, 52, I(swprintf(w, 60, L"%ls", wide_text)))              \
    W(__swprintf_chk, 52, I(__swprintf_chk(w, 60, 1, ALL, L"%d%d%d%ls", 1, 2, 3, wide_text + 3)))                         \
    W(vswprintf, 52, v_swprintf(w, L"%ls", wide_text)) W(__vswprintf_chk, 52, v_swprintf_chk(w, L"%ls", wide_text))

#define I(CALL) (sink += (unsigned long)(CALL))
#define A(CALL) (sink += (unsigned long)(CALL))
#define W(NAME, BYTES, ...) BODY(NAME, __VA_ARGS__)
#define R(NAME, BYTES, ...) BODY(NAME, __VA_ARGS__)
#define L(NAME, BYTES, ...) BODY(NAME, __VA_ARGS__)
#define BODY(NAME, ...)                                                                  \
    static __attribute__((noinline)) void does_##NAME(char *p)                           \
    {                                                                                    \
        wchar_t *w = (wchar_t *)p;                                                       \
        char *rest = NULL;                                                               \
        size_t room = 60;                                                                \
        struct tm moment;                                                                \
        memset(&moment, 0, sizeof moment);                                               \
        (void)w, (void)rest, (void)room;                                                 \
        __VA_ARGS__;                                                                     \
        opaque(NULL);                                                                    \
    }
CASES
#undef W
#undef R
#undef L
#define W(NAME, BYTES, ...) {does_##NAME, #NAME " write " #BYTES "\n", 0},
#define R(NAME, BYTES, ...) {does_##NAME, #NAME " read " #BYTES "\n", 1},
#define L(NAME, BYTES, ...) {does_##NAME, #NAME " read " #BYTES "\n", 4},
static const struct {
    void (*does)(char *);
    const char *line;
    int unit;
} all[] = {CASES};

int main(int count, char **words)
{
    size_t bytes = count == 2 && strcmp(words[1], "good") == 0 ? 4096 : SIZE;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(write(STDOUT_FILENO, all[i].line, strlen(all[i].line)) > 0);
    CHECK((nowhere = fopen("/dev/null", "w")) != NULL && (wide_nowhere = fopen("/dev/null", "w")) != NULL);
    memset(text, 'Z', SIZE);
    memset(longer, 'Z', 100);
    wmemset(wide_text, 'Z', UNITS);
    wmemset(wide_longer, 'Z', 100);
    char directory[] = "a directory of which the name has some sixty characters in all";
    CHECK(symlink(longer, "a link") == 0 && mkdir(directory, 0700) == 0 && chdir(directory) == 0 && symlink(longer, "a link") == 0);
    int silence = open("/dev/null", O_WRONLY);
    CHECK(silence >= 0 && dup2(silence, STDOUT_FILENO) >= 0);
    FILE *lines = stdout;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        // Whatever goes on past the block's end finds what it looks for in the next one.
        char *blocks[5];
        for (int k = 0; k < 5; k++) {
            blocks[k] = (char *)malloc(bytes);
            memset(blocks[k], 0, bytes);
            blocks[k][bytes == SIZE ? 16 : 96] = 'q';
        }
        char *p = blocks[2];
        for (int k = 0; k < SIZE && all[i].unit != 0; k++)
            p[k] = k % all[i].unit == 0 ? 'Z' : 0;
        // A stream is for one kind of characters.
        stdout = strstr(all[i].line, "wprintf") != NULL ? wide_nowhere : lines;
        all[i].does(p);
    }
    _exit(0);
}
