// Loaded before the C library: every pwrite(2) writes only a part of what it is asked for, and every third one is
// interrupted before it writes anything. Both are allowed by POSIX, and neither happens on a local disk with space.
// The number of short writes is written to the file SHORT_WRITES_COUNT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

// Not a divisor of any size that the server writes in.
enum { MOST_BYTES = 1009 };

static atomic_uint calls;
static atomic_uint shortened;

typedef ssize_t write_at(int, const void *, size_t, off_t);

static ssize_t write_part(const char *name, int file, const void *bytes, size_t count, off_t offset) {
    if (atomic_fetch_add(&calls, 1) % 3 == 2) {
        errno = EINTR;
        return -1;
    }
    if (count > MOST_BYTES) atomic_fetch_add(&shortened, 1);
    return ((write_at *)dlsym(RTLD_NEXT, name))(file, bytes, count > MOST_BYTES ? MOST_BYTES : count, offset);
}

__attribute__((visibility("default"))) ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    return write_part("pwrite", file, bytes, count, offset);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) {
    return write_part("pwrite64", file, bytes, count, offset);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("SHORT_WRITES_COUNT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "%u\n", atomic_load(&shortened));
    fclose(file);
}
