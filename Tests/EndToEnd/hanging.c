// A disk that does not answer, as one on the network whose server is gone: system calls on files below a directory wait while a
// file exists. And a directory that cannot be opened.
//
//   HANG_BELOW     the directory, absolute
//   HANG_WHILE     the calls wait while this file exists
//   HANG_REACHED   this file is made when the first call waits
//   FAIL_OPEN_OF   open(2) of this directory fails with EIO, once:
//   FAIL_OPEN_AT   the how-manieth time, from 1 on
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define NEXT(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

static int is_below(const char *path) {
    const char *directory = getenv("HANG_BELOW");
    if (directory == NULL) return 0;
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static void wait_for_answer(const char *path) {
    const char *flag = getenv("HANG_WHILE"), *reached = getenv("HANG_REACHED");
    if (flag == NULL || reached == NULL || !is_below(path)) return;
    int error = errno;
    while (access(flag, F_OK) == 0) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, reached, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0) close(file);
        struct timespec time = {0, 20 * 1000 * 1000};
        nanosleep(&time, NULL);
    }
    errno = error;
}

/// The path of an open file; empty where it has none.
static void get_path(int file, char *path, size_t capacity) {
    char link[64];
    int error = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, capacity - 1);
    path[length < 0 ? 0 : length] = 0;
    errno = error;
}

static void wait_for_file(int file) {
    char path[4096];
    get_path(file, path, sizeof path);
    wait_for_answer(path);
}

static void wait_for_name(int directory, const char *name) {
    if (name[0] == '/') return wait_for_answer(name);
    char path[4096];
    get_path(directory, path, sizeof path);
    wait_for_answer(path);
}

static int fails(const char *path) {
    static atomic_int count;
    const char *directory = getenv("FAIL_OPEN_OF"), *number = getenv("FAIL_OPEN_AT");
    if (directory == NULL || number == NULL || strcmp(path, directory) != 0) return 0;
    return atomic_fetch_add(&count, 1) + 1 == atoi(number);
}

#define MODE(flags)                                                                     \
    va_list list;                                                                       \
    va_start(list, flags);                                                              \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(list, int) : 0; \
    va_end(list);

SHOWN int open(const char *path, int flags, ...) {
    MODE(flags)
    wait_for_answer(path);
    if (fails(path)) {
        errno = EIO;
        return -1;
    }
    return NEXT(int, open, const char *, int, mode_t)(path, flags, mode);
}

SHOWN int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    wait_for_name(directory, path);
    return NEXT(int, openat, int, const char *, int, mode_t)(directory, path, flags, mode);
}

SHOWN int stat(const char *path, struct stat *about) {
    wait_for_answer(path);
    return NEXT(int, stat, const char *, struct stat *)(path, about);
}

SHOWN int lstat(const char *path, struct stat *about) {
    wait_for_answer(path);
    return NEXT(int, lstat, const char *, struct stat *)(path, about);
}

SHOWN int fstat(int file, struct stat *about) {
    wait_for_file(file);
    return NEXT(int, fstat, int, struct stat *)(file, about);
}

SHOWN int fstatat(int directory, const char *path, struct stat *about, int flags) {
    wait_for_name(directory, path);
    return NEXT(int, fstatat, int, const char *, struct stat *, int)(directory, path, about, flags);
}

SHOWN int flock(int file, int operation) {
    wait_for_file(file);
    return NEXT(int, flock, int, int)(file, operation);
}

SHOWN int mkdir(const char *path, mode_t mode) {
    wait_for_answer(path);
    return NEXT(int, mkdir, const char *, mode_t)(path, mode);
}

SHOWN ssize_t pread(int file, void *bytes, size_t count, off_t offset) {
    wait_for_file(file);
    return NEXT(ssize_t, pread, int, void *, size_t, off_t)(file, bytes, count, offset);
}

SHOWN ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    wait_for_file(file);
    return NEXT(ssize_t, pwrite, int, const void *, size_t, off_t)(file, bytes, count, offset);
}

SHOWN int fdatasync(int file) {
    wait_for_file(file);
    return NEXT(int, fdatasync, int)(file);
}

SHOWN int fsync(int file) {
    wait_for_file(file);
    return NEXT(int, fsync, int)(file);
}

SHOWN int renameat(int directory, const char *from, int other, const char *to) {
    wait_for_name(directory, from);
    return NEXT(int, renameat, int, const char *, int, const char *)(directory, from, other, to);
}

SHOWN int unlinkat(int directory, const char *path, int flags) {
    wait_for_name(directory, path);
    return NEXT(int, unlinkat, int, const char *, int)(directory, path, flags);
}
