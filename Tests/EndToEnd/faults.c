// What a bad disk and a busy machine do to the server, as long as a file exists: each variable names a file, FAULT_BAD_SYNC a
// directory.
//
//   FAULT_SLOW_SYNC          fdatasync(2) takes 150 ms
//   FAULT_NO_SYNC            fdatasync(2) does nothing: however slow the disk is, the server does not see it
//   FAULT_BAD_SYNC           fdatasync(2) of the files in this directory fails: EIO
//   FAULT_SLOW_SEND          send(2), sendmsg(2) and writev(2) to a socket take 150 ms: a tick of a loop takes as long
//   FAULT_SLOW_DATABASE      each eighth reading of the monotonic clock by the thread that runs the databases takes 150 ms, and so
//                            does the turn that it measures
//   FAULT_NO_CHECKPOINT      no checkpoint can be made: ENOSPC
//   FAULT_SMALL_DISK         the file system says that a twentieth of it is free
//   FAULT_SMALL_BACKUP_DISK  the same of the directories of backups and archive, which are asked by descriptor
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static int is_on(const char *name) {
    const char *path = getenv(name);
    return path != NULL && access(path, F_OK) == 0;
}

static void delay(const char *name) {
    if (!is_on(name)) return;
    struct timespec time = {0, 150 * 1000 * 1000};
    nanosleep(&time, NULL);
}

static int is_in(const char *name, int file) {
    char link[64], path[4096];
    const char *directory = getenv(name);
    if (directory == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    size_t prefix = strlen(directory);
    return length > (ssize_t)prefix && strncmp(path, directory, prefix) == 0 && path[prefix] == '/';
}

#define NEXT(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

SHOWN int fdatasync(int file) {
    delay("FAULT_SLOW_SYNC");
    if (is_on("FAULT_NO_SYNC")) return 0;
    if (is_in("FAULT_BAD_SYNC", file)) {
        errno = EIO;
        return -1;
    }
    return NEXT(int, fdatasync, int)(file);
}

SHOWN ssize_t send(int file, const void *bytes, size_t count, int flags) {
    delay("FAULT_SLOW_SEND");
    return NEXT(ssize_t, send, int, const void *, size_t, int)(file, bytes, count, flags);
}

SHOWN ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    delay("FAULT_SLOW_SEND");
    return NEXT(ssize_t, sendmsg, int, const struct msghdr *, int)(file, message, flags);
}

SHOWN ssize_t writev(int file, const struct iovec *parts, int count) {
    delay("FAULT_SLOW_SEND");
    return NEXT(ssize_t, writev, int, const struct iovec *, int)(file, parts, count);
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *time) {
    static unsigned count; // of one thread
    char name[16];
    if (clock == CLOCK_MONOTONIC && getenv("FAULT_SLOW_DATABASE") != NULL && prctl(PR_GET_NAME, name) == 0
        && strcmp(name, "pando-database") == 0 && ++count % 8 == 0)
        delay("FAULT_SLOW_DATABASE");
    return NEXT(int, clock_gettime, clockid_t, struct timespec *)(clock, time);
}

SHOWN int openat(int directory, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(list, int) : 0;
    va_end(list);
    if (strstr(path, ".chk.new") != NULL && is_on("FAULT_NO_CHECKPOINT")) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(int, openat, int, const char *, int, mode_t)(directory, path, flags, mode);
}

static void shrink(struct statvfs *about) { about->f_bfree = about->f_bavail = about->f_blocks / 20; }

SHOWN int fstatvfs(int file, struct statvfs *about) {
    int result = NEXT(int, fstatvfs, int, struct statvfs *)(file, about);
    if (result == 0 && is_on("FAULT_SMALL_BACKUP_DISK")) shrink(about);
    return result;
}

SHOWN int statvfs(const char *path, struct statvfs *about) {
    int result = NEXT(int, statvfs, const char *, struct statvfs *)(path, about);
    if (result == 0 && is_on("FAULT_SMALL_DISK")) shrink(about);
    return result;
}
