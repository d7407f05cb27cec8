#include "csystem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int pando_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -errno;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : -errno;
}

int pando_reserve_descriptor_table(int count) {
    int any = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (any < 0) return -errno;
    int last = fcntl(any, F_DUPFD_CLOEXEC, count - 1);
    int error = last < 0 ? -errno : 0;
    if (last >= 0) close(last);
    close(any);
    return error;
}

int64_t pando_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -errno;
    return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
}

int64_t pando_open_descriptor_count(void) {
    int64_t count = 0;
    // Since Linux 6.2 the size of the directory is their number (proc_pid_fd(5)), so that none of them is visited.
    struct stat status;
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0) return status.st_size;
    DIR *directory = opendir("/proc/self/fd");
    if (directory != NULL) {
        while (readdir(directory) != NULL) count++;
        closedir(directory);
        return count > 3 ? count - 3 : 0;  // `.`, `..` and the directory itself
    }
    // Without /proc: the descriptors that a program is started with have low numbers.
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
