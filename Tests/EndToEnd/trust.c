// Loaded before the C library: who opens the system's list of trusted certificates is given another file,
// TEST_TRUSTED_CERTIFICATES. The list itself is the administrator's, and no test may add to it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *instead(const char *path) {
    const char *trusted = getenv("TEST_TRUSTED_CERTIFICATES");
    return trusted && path && strcmp(path, "/etc/ssl/certs/ca-certificates.crt") == 0 ? trusted : path;
}

typedef FILE *open_file(const char *, const char *);

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode) {
    return ((open_file *)dlsym(RTLD_NEXT, "fopen"))(instead(path), mode);
}

__attribute__((visibility("default"))) FILE *fopen64(const char *path, const char *mode) {
    return ((open_file *)dlsym(RTLD_NEXT, "fopen64"))(instead(path), mode);
}
