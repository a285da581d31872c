// Forgets what functions of the C library have given it.
#define _GNU_SOURCE
#include <dirent.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <search.h>
#include <glob.h>

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    void *text = strdup("abc");
    char *line = NULL, *made = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (getline(&line, &room, file) < 0 || asprintf(&made, "%d", 5) < 0)
        return 1;
    DIR *directory = opendir("/");
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    iconv_t conversion = iconv_open("UTF-16", "ISO-8859-1");
    struct addrinfo *found = NULL;
    if (getaddrinfo("127.0.0.1", "80", NULL, &found) != 0)
        return 2;
    char *path = realpath("/tmp", NULL);
    hcreate(10);
    glob_t names;
    glob("~root", GLOB_TILDE, NULL, &names);
    struct dirent **entries;
    scandir("/", &entries, NULL, NULL);
    void *root = NULL;
    tsearch("a", &root, (int (*)(const void *, const void *))strcmp);
    return !(text && directory && locale && conversion && path);
}
