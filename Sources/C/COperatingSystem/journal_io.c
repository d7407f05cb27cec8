#define _GNU_SOURCE
#include "csystem_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/// Makes the name of a directory durable.
static int sync_name(int directory, int is_new) {
    int parent = openat(directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) {
        if (errno != EACCES && errno != EPERM) return -errno;
        // A parent that we may search but not read. A sync of the whole file system includes it.
        return syncfs(directory) != 0 ? -errno : 0;
    }
    struct stat own, above;
    int result = 0;
    if (fstat(directory, &own) != 0 || fstat(parent, &above) != 0) {
        result = -errno;
    } else if (own.st_dev == above.st_dev && fsync(parent) != 0) {
        result = -errno;
        // A file system that cannot sync a directory, or cannot be written: the name was there before.
        if (!is_new && (result == -EINVAL || result == -EROFS)) result = 0;
    }  // Otherwise a file system is mounted here: its root has no name that could be lost.
    close(parent);
    return result;
}

int pando_disk_make_directory(const char *path) {
    int is_new = mkdir(path, 0700) == 0;
    if (!is_new && errno != EEXIST) return -errno;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A symbolic link to nothing is there, too.
    if (directory < 0) return errno == ENOENT && !is_new ? -EEXIST : -errno;
    // Also where it exists: the process that made it may have ended before its name was durable, or because the sync failed.
    int result = sync_name(directory, is_new);
    close(directory);
    return result < 0 ? result : is_new;
}

int pando_disk_make_new_directory(const char *path) {
    if (mkdir(path, 0700) != 0) return -errno;
    int result = pando_disk_make_directory(path);
    return result < 0 ? result : 0;
}

int pando_disk_open_directory(const char *path) {
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory < 0 ? -errno : directory;
}

int pando_disk_overwrites_in_place(int directory) {
    struct statfs about;
    return fstatfs(directory, &about) == 0 && (uint64_t)about.f_type == EXT4_SUPER_MAGIC;
}

int64_t pando_disk_list(int directory, char *names, size_t capacity) {
    // An open file description of its own, so that the position of `directory` does not change.
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return -errno;
    DIR *stream = fdopendir(own);
    if (stream == NULL) {
        int error = errno;
        close(own);
        return -error;
    }
    size_t used = 0;
    int error = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (entry == NULL) {
            error = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        size_t length = strlen(entry->d_name) + 1;
        if (used + length <= capacity) memcpy(names + used, entry->d_name, length);
        used += length;
    }
    closedir(stream);
    return error != 0 ? -error : (int64_t)used;
}

int pando_disk_open(int directory, const char *name, int mode) {
    int flags = mode == PANDO_DISK_READ         ? O_RDONLY
                : mode == PANDO_DISK_READ_WRITE ? O_RDWR
                                                : O_RDWR | O_CREAT | O_TRUNC;
    // Without O_NONBLOCK the open of a FIFO waits for its other end. For a regular file the flag changes one thing: where another
    // process holds a lease of it (fcntl(2)), the open fails. Then it is repeated, and waits for the end of the lease.
    int file = openat(directory, name, flags | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0 && errno == EWOULDBLOCK) file = openat(directory, name, flags | O_CLOEXEC, 0600);
    if (file < 0) return -errno;
    struct stat status;
    int error = 0;
    if (fstat(file, &status) != 0) {
        error = errno;
    } else if (!S_ISREG(status.st_mode)) {
        error = S_ISDIR(status.st_mode) ? EISDIR : ENXIO;
    }
    if (error == 0) return file;
    close(file);
    return -error;
}

int pando_disk_close(int file) {
    return close(file) != 0 ? -errno : 0;
}

int64_t pando_disk_size(int file) {
    struct stat status;
    return fstat(file, &status) != 0 ? -errno : (int64_t)status.st_size;
}

int64_t pando_disk_read(int file, void *bytes, size_t count, uint64_t offset) {
    size_t done = 0;
    while (done < count) {
        ssize_t taken = pread(file, (char *)bytes + done, count - done, (off_t)(offset + done));
        if (taken < 0 && errno == EINTR) continue;
        if (taken < 0) return -errno;
        if (taken == 0) break;
        done += (size_t)taken;
    }
    return (int64_t)done;
}

int pando_disk_write(int file, const void *bytes, size_t count, uint64_t offset) {
    const char *next = bytes;
    while (count > 0) {
        ssize_t written = pwrite(file, next, count, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -errno;
        if (written == 0) return -EIO;
        next += written;
        offset += (uint64_t)written;
        count -= (size_t)written;
    }
    return 0;
}

int pando_disk_sync(int file) {
    return fdatasync(file) != 0 ? -errno : 0;
}

void pando_disk_drop_cache(int file) {
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

int pando_disk_reserve(int file, uint64_t start, uint64_t end) {
    if (end <= start) return 0;
    // fallocate reserves space beyond the process's file size limit where the size stays, and the write would fail.
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) return -EFBIG;
    int result;
    do {
        result = fallocate(file, FALLOC_FL_KEEP_SIZE, (off_t)start, (off_t)(end - start));
    } while (result != 0 && errno == EINTR);
    if (result == 0) return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return -errno;
    struct statvfs space;
    if (fstatvfs(file, &space) != 0) return -errno;
    uint64_t unit = space.f_frsize != 0 ? space.f_frsize : space.f_bsize;
    return (end - start) / (unit != 0 ? unit : 1) < space.f_bavail ? 0 : -ENOSPC;
}

int pando_disk_truncate(int file, uint64_t byte_count) {
    return ftruncate(file, (off_t)byte_count) != 0 ? -errno : 0;
}

int pando_disk_rename(int directory, const char *from, const char *to) {
    return renameat(directory, from, directory, to) != 0 ? -errno : 0;
}

int pando_disk_remove(int directory, const char *name) {
    return unlinkat(directory, name, 0) != 0 ? -errno : 0;
}

int pando_disk_sync_directory(int directory) {
    return fsync(directory) != 0 ? -errno : 0;
}

/// The process id in a lock file; 0 where there is none.
static int64_t read_owner(int file) {
    char text[32] = {0};
    return pread(file, text, sizeof text - 1, 0) > 0 ? strtoll(text, NULL, 10) : 0;
}

int pando_disk_lock_directory(int directory, const char *name, int64_t *owner) {
    *owner = 0;
    // An open file description of its own: a lock belongs to one.
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return -errno;
    if (flock(own, LOCK_EX | LOCK_NB) == 0) return own;
    if (errno == EWOULDBLOCK) {
        int file = openat(directory, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (file >= 0) {
            *owner = read_owner(file);
            close(file);
        }
        close(own);
        return -EWOULDBLOCK;
    }
    // A file system that locks only files, such as NFS: then the lock file alone protects the directory.
    return own;
}

int pando_disk_lock(int directory, const char *name, int64_t *owner) {
    *owner = 0;
    int file = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return -errno;
    char text[32] = {0};
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        *owner = read_owner(file);
        close(file);
        return -error;
    }
    // Always of the same length, so that it can be written on a full disk, too. The id is only information: the lock
    // holds without it.
    int length = snprintf(text, sizeof text, "%-20lld\n", (long long)getpid());
    ssize_t written = pwrite(file, text, (size_t)length, 0);
    if (written != length && (written >= 0 || !pando_disk_is_full(errno))) {
        int error = written < 0 ? errno : EIO;
        close(file);
        return -error;
    }
    return file;
}

int pando_disk_is_same(int directory, const char *name, int file) {
    struct stat named, open;
    if (fstat(file, &open) != 0) return -errno;
    if (fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : -errno;
    return named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

int pando_disk_would_block(void) {
    return EWOULDBLOCK;
}

int pando_disk_is_full(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

int pando_disk_lacks_descriptors(int error) {
    return error == EMFILE || error == ENFILE;
}

int pando_disk_lacks_memory(int error) {
    return error == ENOMEM;
}

int pando_disk_is_missing(int error) {
    return error == ENOENT;
}

int pando_disk_is_taken(int error) {
    return error == EEXIST;
}

int pando_disk_is_no_directory(int error) {
    return error == ENOTDIR;
}

int pando_disk_is_special(int error) {
    return error == ENXIO;
}

int pando_disk_lacks_sync(int error) {
    return error == EINVAL;
}

int pando_disk_name(int file, char *name, size_t capacity) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return -errno;
    path[length] = 0;
    const char *slash = strrchr(path, '/');
    struct stat status;
    // A file without a name has no path, but the kernel's description of it.
    if (slash == NULL || fstat(file, &status) != 0 || status.st_nlink == 0) return -ENOENT;
    if (strlen(slash + 1) >= capacity) return -ENAMETOOLONG;
    strcpy(name, slash + 1);
    return 0;
}

int64_t pando_disk_process_id(void) {
    return getpid();
}

int pando_disk_space(int directory, uint64_t *byte_count, uint64_t *free_byte_count) {
    struct statvfs space;
    if (fstatvfs(directory, &space) != 0) return -errno;
    uint64_t unit = space.f_frsize != 0 ? space.f_frsize : space.f_bsize;
    *byte_count = (uint64_t)space.f_blocks * unit;
    *free_byte_count = (uint64_t)space.f_bavail * unit;
    return 0;
}

int pando_disk_is_not_permitted(int error) {
    return error == EACCES || error == EPERM;
}

int pando_disk_is_read_only(int error) {
    return error == EROFS;
}

uint32_t pando_disk_user_id(void) {
    return geteuid();
}

const char *pando_disk_error_text(int error) {
    const char *text = strerrordesc_np(error);
    return text != NULL ? text : "unknown error";
}
