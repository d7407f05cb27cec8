#define _GNU_SOURCE
#include "csystem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int pando_process_start(
    const char *path, const char *arguments, size_t byte_count, int64_t *process, int *output) {
    size_t count = 0;
    for (size_t i = 0; i < byte_count; i++) count += arguments[i] == 0;
    char **list = calloc(count + 1, sizeof *list);
    if (list == NULL) return -ENOMEM;
    const char *next = arguments;
    for (size_t i = 0; i < count; i++) {
        list[i] = (char *)next;
        next += strlen(next) + 1;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        int error = errno;
        free(list);
        return -error;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    // What was opened without O_CLOEXEC: sockets of the service manager.
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    // A group of its own: Ctrl-C in a terminal is for the server.
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    sigaddset(&standard, SIGTERM);
    sigaddset(&standard, SIGINT);
    sigaddset(&standard, SIGHUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t child = 0;
    int error = posix_spawn(&child, path, &actions, &attributes, list, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(list);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return -error;
    }
    *process = child;
    *output = ends[0];
    return 0;
}

int64_t pando_process_read(int output, void *bytes, size_t capacity, int milliseconds) {
    struct pollfd entry = {.fd = output, .events = POLLIN};
    int ready = poll(&entry, 1, milliseconds);
    if (ready < 0) return errno == EINTR ? -EAGAIN : -errno;
    if (ready == 0) return -EAGAIN;
    ssize_t count = read(output, bytes, capacity);
    if (count < 0) return errno == EINTR ? -EAGAIN : -errno;
    return count;
}

int pando_process_is_again(int error) { return error == EAGAIN; }

int pando_process_end(int64_t process, int output, int kills) {
    close(output);
    if (kills) kill((pid_t)process, SIGKILL);
    int status = 0;
    pid_t ended;
    do ended = waitpid((pid_t)process, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended < 0) return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
