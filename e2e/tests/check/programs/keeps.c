// Frees all that is its own. What is left at its end are static tables of the C library and its loader.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <mntent.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <shadow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static void nothing(void) {}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    bindtextdomain("x", "/tmp");
    textdomain("x");
    puts(gettext("text"));
    getpwnam("root");
    getpwuid(0);
    getgrnam("root");
    getservbyname("http", "tcp");
    getprotobyname("tcp");
    gethostbyname("localhost");
    struct addrinfo *found = NULL;
    if (getaddrinfo("localhost", "http", NULL, &found) == 0)
        freeaddrinfo(found);
    setenv("TZ", "Europe/Berlin", 1);
    setenv("ANOTHER", "value", 1);
    setenv("ANOTHER", "value of another length", 1);
    putenv("THIRD=x");
    time_t now = time(NULL);
    localtime(&now);
    struct tm parts;
    localtime_r(&now, &parts);
    mktime(&parts);
    char text[200];
    strftime(text, sizeof text, "%c %Ey %Od", &parts);
    wchar_t wide[20];
    mbstowcs(wide, "abc", 20);
    wprintf(L"");
    iconv_t conversion = iconv_open("UTF-16", "ISO-8859-1");
    iconv_close(conversion);
    for (int i = 0; i < 100; i++)
        atexit(nothing);
    pthread_atfork(nothing, nothing, nothing);
    pthread_key_t key;
    for (int i = 0; i < 40; i++)
        pthread_key_create(&key, NULL);
    pthread_setspecific(key, &key);
    strerror(12345);
    strsignal(123);
    dlopen("libm.so.6", RTLD_NOW);
    dlopen("/no/such.so", RTLD_NOW);
    FILE *mounts = setmntent("/proc/mounts", "r");
    getmntent(mounts);
    endmntent(mounts);
    FILE *read = fopen("/proc/self/status", "r");
    fgets(text, sizeof text, read);
    fclose(read);
    return 0;
}
