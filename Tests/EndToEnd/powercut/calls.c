// A disk that loses, tears and reorders what was not synced, under a real process: loaded with LD_PRELOAD.
//
// Files in POWERCUT_DIRECTORY are written as ever, so that the process reads what it wrote. Beside them the
// layer keeps what a disk would have: for each 512-byte sector written since the file's last fdatasync or fsync
// the bytes from before, the size at that sync, and the directory as it was at its last fsync with every change
// of a name since. At the power cut it makes the real directory what a machine could find when it comes back,
// and ends the process by SIGKILL:
//
//   sectors   each one by itself: new, old, or torn inside
//   sizes     anywhere between the durable one and the current one
//   names     as they were at some moment since the directory's fsync, or each change kept or lost by itself
//
// This is less than POSIX promises, and harsher than any file system we know: fsync of a file does not save its
// name.
//
//   POWERCUT_DIRECTORY  the data directory; may be missing yet
//   POWERCUT_STASH      an empty directory on the same file system: every file is linked there, so that a
//                       removal that is lost can be undone
//   POWERCUT_SEED       decides everything that is left to chance here
//   POWERCUT_AFTER      the operation that is cut: 1 is the first; 0, or none: only by SIGUSR2
//   POWERCUT_COUNT      `names`: POWERCUT_AFTER counts only what touches the directory
//   POWERCUT_DELAY      microseconds that a sync takes at most, as on a disk; 0
//   POWERCUT_REPORT     file for a report of what the cut did, as JSON
//   POWERCUT_LOG        file that gets a line for each operation, `kind name`
//   POWERCUT_LIE        `sync`: fdatasync and fsync of files do nothing; `rarely`: one in four of them does
//                       nothing; `directory`: fsync of the directory does nothing
//
// The calls made here are system calls, so nothing of the layer itself comes back into it. What a process could
// do to files without the functions below (writev, mmap, links, …) would escape: test_powercut.py holds a trace
// of all system calls against POWERCUT_LOG.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"

enum { PATH_BYTES = 4096 };

static void *wait_for_signal(void *set) {
    int number;
    sigwait(set, &number);
    pthread_mutex_lock(&lock);
    cut("signal");
}

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

// Everything there is when the process begins is durable.
__attribute__((constructor)) static void begin(void) {
    settings.directory = getenv("POWERCUT_DIRECTORY");
    if (settings.directory == NULL) return;
    settings.stash = getenv("POWERCUT_STASH");
    settings.report = getenv("POWERCUT_REPORT");
    if (settings.stash == NULL) fail("no POWERCUT_STASH");
    if (getenv("POWERCUT_LIE") != NULL) settings.lie = getenv("POWERCUT_LIE");
    if (getenv("POWERCUT_COUNT") != NULL) settings.counted = getenv("POWERCUT_COUNT");
    settings.seed = number("POWERCUT_SEED");
    settings.after = number("POWERCUT_AFTER");
    settings.delay_limit = number("POWERCUT_DELAY");
    const char *log_path = getenv("POWERCUT_LOG");
    if (log_path != NULL) {
        int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
        settings.log = (int)syscall(SYS_openat, AT_FDCWD, log_path, flags, 0600);
        if (settings.log < 0) fail(log_path);
    }
    if (stat(settings.directory, &directory) == 0) {
        directory_is_durable = 1;
        DIR *stream = opendir(settings.directory);
        if (stream == NULL) fail(settings.directory);
        for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
            struct stat status;
            if (fstatat(dirfd(stream), entry->d_name, &status, 0) != 0) fail(entry->d_name);
            if (!S_ISREG(status.st_mode)) continue;
            add_durable_name(entry->d_name, track(dirfd(stream), entry->d_name, status.st_size));
        }
        closedir(stream);
    }
    // Our thread takes this signal and no other, and every other thread leaves it: all inherit their mask.
    static sigset_t ours;
    sigset_t all, theirs;
    sigfillset(&all);
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &all, &theirs);
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_signal, &ours) != 0) fail("pthread_create");
    sigaddset(&theirs, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &theirs, NULL);
}

// The name of `path` in our directory, or NULL when it leads elsewhere.
static const char *name_in_directory(int parent, const char *path) {
    if (directory.st_ino == 0) return NULL;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (name[0] == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return NULL;
    char folder[PATH_BYTES] = ".";
    if (slash != NULL) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    struct stat status;
    if (fstatat(parent, folder, &status, 0) != 0) return NULL;
    return status.st_ino == directory.st_ino && status.st_dev == directory.st_dev ? name : NULL;
}

static int open_below(int parent, const char *path, int flags, mode_t mode) {
    if ((flags & (O_CREAT | O_TRUNC)) == 0) return (int)syscall(SYS_openat, parent, path, flags, mode);
    pthread_mutex_lock(&lock);
    const char *name = name_in_directory(parent, path);
    struct stat status;
    struct inode *old = name != NULL && fstatat(parent, path, &status, 0) == 0 ? find(&status) : NULL;
    if (old != NULL && (flags & O_TRUNC) != 0) remember(old, 0, size_of(old));
    int result = (int)syscall(SYS_openat, parent, path, flags, mode), error = errno;
    if (name != NULL && result >= 0) {
        int ends = count("open", name);
        if (old == NULL) note_change("", name, track(parent, path, 0));
        if (ends) cut("open");
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static ssize_t write_at(int file, const struct iovec *pieces, int piece_count, off_t offset) {
    struct inode *inode = NULL;
    pthread_mutex_lock(&lock);
    if (directory.st_ino != 0) inode = find_open(file);
    if (inode != NULL) {
        off_t end = offset;
        for (int i = 0; i < piece_count; i++) end += (off_t)pieces[i].iov_len;
        remember(inode, offset, end);
    }
    // Both halves of the offset, as the kernel wants them; on 64 bits the first is all of it.
    ssize_t result = syscall(SYS_pwritev, file, pieces, piece_count, (long)offset, 0L);
    int error = errno;
    if (inode != NULL && count("write", "")) cut("write");
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static int sync_file(int file, long call, const char *kind) {
    struct stat status, parent;
    if (fstat(file, &status) != 0) return -1;
    pthread_mutex_lock(&lock);
    struct inode *inode = S_ISREG(status.st_mode) ? find(&status) : NULL;
    int is_directory = status.st_ino == directory.st_ino && status.st_dev == directory.st_dev;
    char above[PATH_BYTES];
    snprintf(above, sizeof above, "%s/..", settings.directory != NULL ? settings.directory : "");
    int is_parent = directory.st_ino != 0 && S_ISDIR(status.st_mode) && stat(above, &parent) == 0 &&
                    parent.st_ino == status.st_ino && parent.st_dev == status.st_dev;
    int is_ours = inode != NULL || is_directory || is_parent;
    int ends = is_ours && count(kind, is_parent ? ".." : is_directory ? "." : "");
    int is_lie = strcmp(settings.lie, inode != NULL ? "sync" : "directory") == 0;
    if (inode != NULL && strcmp(settings.lie, "rarely") == 0) is_lie = below(4) == 0;
    struct moment moment = moment_of(inode);
    uint64_t delay = is_ours && settings.delay_limit > 0 ? below(settings.delay_limit + 1) : 0;
    pthread_mutex_unlock(&lock);

    if (is_ours && is_lie && !ends) return 0;
    // Others go on meanwhile: what must wait for this sync has time to show that it does not.
    if (delay > 0) nanosleep(&(struct timespec){0, (long)delay * 1000}, NULL);
    if (!ends) {
        int result = (int)syscall(call, file);
        if (!is_ours || result != 0) return result;
    }
    pthread_mutex_lock(&lock);
    if (ends) cut(kind);
    if (inode != NULL) settle(inode, &moment);
    if (is_directory) settle_names(&moment);
    if (is_parent) directory_is_durable = 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int rename_below(int from_parent, const char *from_path, int to_parent, const char *to_path) {
    pthread_mutex_lock(&lock);
    const char *from = name_in_directory(from_parent, from_path), *to = name_in_directory(to_parent, to_path);
    struct stat status;
    int is_there = from != NULL && fstatat(from_parent, from_path, &status, 0) == 0;
    struct inode *inode = is_there ? find(&status) : NULL;
    int result = (int)syscall(SYS_renameat2, from_parent, from_path, to_parent, to_path, 0), error = errno;
    if (result == 0 && (from == NULL) != (to == NULL)) fail("a rename across the directory's border");
    if (result == 0 && inode != NULL) {
        int ends = count("rename", to);
        note_change(from, to, inode);
        if (ends) cut("rename");
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static int unlink_below(int parent, const char *path, int flags) {
    pthread_mutex_lock(&lock);
    const char *name = name_in_directory(parent, path);
    int result = (int)syscall(SYS_unlinkat, parent, path, flags), error = errno;
    if (result == 0 && name != NULL) {
        int ends = count("unlink", name);
        note_change(name, "", NULL);
        if (ends) cut("unlink");
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

// What the process calls in place of the C library's

#define EXPORT __attribute__((visibility("default")))

#define MODE_OF(flags)                                               \
    va_list list;                                                    \
    va_start(list, flags);                                           \
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0; \
    va_end(list)

EXPORT int open(const char *path, int flags, ...) {
    MODE_OF(flags);
    return open_below(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) {
    MODE_OF(flags);
    return open_below(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int parent, const char *path, int flags, ...) {
    MODE_OF(flags);
    return open_below(parent, path, flags, mode);
}

EXPORT int openat64(int parent, const char *path, int flags, ...) {
    MODE_OF(flags);
    return open_below(parent, path, flags, mode);
}

EXPORT ssize_t pwritev(int file, const struct iovec *pieces, int piece_count, off_t offset) {
    return write_at(file, pieces, piece_count, offset);
}

EXPORT ssize_t pwritev64(int file, const struct iovec *pieces, int piece_count, off64_t offset) {
    return write_at(file, pieces, piece_count, offset);
}

EXPORT ssize_t pwrite(int file, const void *bytes, size_t byte_count, off_t offset) {
    return write_at(file, &(struct iovec){(void *)bytes, byte_count}, 1, offset);
}

EXPORT ssize_t pwrite64(int file, const void *bytes, size_t byte_count, off64_t offset) {
    return write_at(file, &(struct iovec){(void *)bytes, byte_count}, 1, offset);
}

EXPORT ssize_t write(int file, const void *bytes, size_t byte_count) {
    pthread_mutex_lock(&lock);
    struct inode *inode = find_open(file);
    if (inode != NULL) {
        off_t offset = (fcntl(file, F_GETFL) & O_APPEND) != 0 ? size_of(inode) : lseek(file, 0, SEEK_CUR);
        remember(inode, offset, offset + (off_t)byte_count);
    } else {
        pthread_mutex_unlock(&lock);  // a socket, perhaps one that blocks
    }
    ssize_t result = syscall(SYS_write, file, bytes, byte_count);
    int error = errno;
    if (inode != NULL && count("write", "")) cut("write");
    if (inode != NULL) pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

EXPORT int fdatasync(int file) {
    return sync_file(file, SYS_fdatasync, "fdatasync");
}

EXPORT int fsync(int file) {
    return sync_file(file, SYS_fsync, "fsync");
}

EXPORT int ftruncate(int file, off_t size) {
    pthread_mutex_lock(&lock);
    struct inode *inode = find_open(file);
    if (inode != NULL) remember(inode, size, size_of(inode));
    int result = (int)syscall(SYS_ftruncate, file, size), error = errno;
    if (inode != NULL && count("ftruncate", "")) cut("ftruncate");
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

EXPORT int ftruncate64(int file, off64_t size) {
    return ftruncate(file, size);
}

// Room is no content: nothing to remember. What changes content has no model here.
EXPORT int fallocate(int file, int mode, off_t offset, off_t length) {
    pthread_mutex_lock(&lock);
    struct inode *inode = find_open(file);
    if (inode != NULL && (mode & ~FALLOC_FL_KEEP_SIZE) != 0) fail("fallocate with a mode that has no model");
    int result = (int)syscall(SYS_fallocate, file, mode, offset, length), error = errno;
    if (inode != NULL && count("fallocate", "")) cut("fallocate");
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

EXPORT int fallocate64(int file, int mode, off64_t offset, off64_t length) {
    return fallocate(file, mode, offset, length);
}

EXPORT int rename(const char *from, const char *to) {
    return rename_below(AT_FDCWD, from, AT_FDCWD, to);
}

EXPORT int renameat(int from_parent, const char *from, int to_parent, const char *to) {
    return rename_below(from_parent, from, to_parent, to);
}

EXPORT int unlink(const char *path) {
    return unlink_below(AT_FDCWD, path, 0);
}

EXPORT int unlinkat(int parent, const char *path, int flags) {
    return unlink_below(parent, path, flags);
}

EXPORT int mkdir(const char *path, mode_t mode) {
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode), error = errno;
    struct stat made;
    int is_ours = result == 0 && settings.directory != NULL && directory.st_ino == 0 &&
                  stat(settings.directory, &made) == 0;  // it was not there before
    if (is_ours) directory = made;
    if (is_ours && count("mkdir", "")) cut("mkdir");
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
