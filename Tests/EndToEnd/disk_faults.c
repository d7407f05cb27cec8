// What a bad disk does to the files of a data directory. Each variable names the file that it is about.
//
//   FAULT_UNREADABLE   pread(2) of the file of this name fails: EIO
//   FAULT_FLIPPED_BIT  of what is written first into a file with this in its name, one bit is another on the disk
//   FAULT_BEHIND_CACHE of a file with this in its name, one bit is another on the disk than in memory: it is read once
//                      posix_fadvise(2) has dropped the file from memory
//   FAULT_BEHIND_NAME  once a file has been renamed to this name, fsync(2) fails: EIO
//   FAULT_UNLINK       unlinkat(2) of the file of this name fails: EIO
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define NEXT(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

static atomic_int is_named;
static atomic_int is_dropped;

// The last part of the path of an open file, in `path`.
static const char *file_name(int file, char *path, size_t capacity) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, capacity - 1);
    path[length < 0 ? 0 : length] = 0;
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int is(const char *variable, const char *name) {
    const char *wanted = getenv(variable);
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static int is_part(const char *variable, const char *name) {
    const char *wanted = getenv(variable);
    return wanted != NULL && strstr(name, wanted) != NULL;
}

static ssize_t read_at(const char *symbol, int file, void *bytes, size_t count, off_t offset) {
    char path[4096];
    if (is("FAULT_UNREADABLE", file_name(file, path, sizeof path))) {
        errno = EIO;
        return -1;
    }
    ssize_t result = NEXT(ssize_t, symbol, int, void *, size_t, off_t)(file, bytes, count, offset);
    if (offset <= 10 && offset + result > 10 && atomic_load(&is_dropped) &&
        is_part("FAULT_BEHIND_CACHE", file_name(file, path, sizeof path)))
        ((char *)bytes)[10 - offset] ^= 4;
    return result;
}

static int drop_at(const char *symbol, int file, off_t offset, off_t count, int advice) {
    char path[4096];
    if (advice == POSIX_FADV_DONTNEED && is_part("FAULT_BEHIND_CACHE", file_name(file, path, sizeof path)))
        atomic_store(&is_dropped, 1);
    return NEXT(int, symbol, int, off_t, off_t, int)(file, offset, count, advice);
}

SHOWN int posix_fadvise(int file, off_t offset, off_t count, int advice) {
    return drop_at("posix_fadvise", file, offset, count, advice);
}

SHOWN int posix_fadvise64(int file, off_t offset, off_t count, int advice) {
    return drop_at("posix_fadvise64", file, offset, count, advice);
}

SHOWN ssize_t pread(int file, void *bytes, size_t count, off_t offset) {
    return read_at("pread", file, bytes, count, offset);
}

SHOWN ssize_t pread64(int file, void *bytes, size_t count, off_t offset) {
    return read_at("pread64", file, bytes, count, offset);
}

static ssize_t write_at(const char *symbol, int file, const void *bytes, size_t count, off_t offset) {
    ssize_t (*next)(int, const void *, size_t, off_t) = NEXT(ssize_t, symbol, int, const void *, size_t, off_t);
    char path[4096];
    const char *wanted = getenv("FAULT_FLIPPED_BIT");
    if (wanted == NULL || offset != 0 || count < 11 || strstr(file_name(file, path, sizeof path), wanted) == NULL)
        return next(file, bytes, count, offset);
    char *changed = malloc(count);
    if (changed == NULL) return -1;
    memcpy(changed, bytes, count);
    changed[10] ^= 4;
    ssize_t result = next(file, changed, count, offset);
    free(changed);
    return result;
}

SHOWN ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    return write_at("pwrite", file, bytes, count, offset);
}

SHOWN ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) {
    return write_at("pwrite64", file, bytes, count, offset);
}

SHOWN int renameat(int old_directory, const char *old_name, int new_directory, const char *new_name) {
    int result = NEXT(int, "renameat", int, const char *, int, const char *)(old_directory, old_name, new_directory, new_name);
    if (result == 0 && is("FAULT_BEHIND_NAME", new_name)) atomic_store(&is_named, 1);
    return result;
}

SHOWN int fsync(int file) {
    if (atomic_load(&is_named)) {
        errno = EIO;
        return -1;
    }
    return NEXT(int, "fsync", int)(file);
}

SHOWN int unlinkat(int directory, const char *name, int flags) {
    if (is("FAULT_UNLINK", name)) {
        errno = EIO;
        return -1;
    }
    return NEXT(int, "unlinkat", int, const char *, int)(directory, name, flags);
}
