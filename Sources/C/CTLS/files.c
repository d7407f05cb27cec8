// Files of certificates and keys.
#define _GNU_SOURCE
#include "ctls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(PANDO_TLS_EFBIG == EFBIG, "EFBIG");

int32_t pando_tls_file_stamp(const char *path, pando_file_stamp *stamp) {
    struct stat status;
    if (stat(path, &status) < 0) return -errno;
    *stamp = (pando_file_stamp){
        .device = status.st_dev,
        .inode = status.st_ino,
        .byte_count = (uint64_t)status.st_size,
        .modified_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec,
        .changed_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec,
        .mode = status.st_mode,
    };
    return 0;
}

int64_t pando_tls_file_read(const char *path, void *bytes, size_t capacity) {
    // Not blocked by a FIFO in the file's place.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -errno;
    struct stat status;
    int64_t result = fstat(fd, &status) < 0 ? -errno : S_ISREG(status.st_mode) ? 0 : S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
    while (result >= 0) {
        uint8_t more;
        ssize_t count = (size_t)result < capacity ? read(fd, (uint8_t *)bytes + result, capacity - (size_t)result)
                                                  : read(fd, &more, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) break;
        result = count < 0 ? -errno : (size_t)result < capacity ? result + count : -EFBIG;
    }
    close(fd);
    return result;
}

int32_t pando_tls_directory(const char *path, void (*body)(void *context, const char *name), void *context) {
    DIR *directory = opendir(path);
    if (!directory) return -errno;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) body(context, entry->d_name);
    int32_t result = -errno;
    closedir(directory);
    return result;
}

void pando_tls_errno_text(int32_t code, char *text, size_t capacity) {
    // GNU's strerror_r may return a string of its own instead of using the buffer.
    const char *message = strerror_r(code, text, capacity);
    if (message != text) snprintf(text, capacity, "%s", message);
}
