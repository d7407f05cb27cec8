#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// The header's numbers are the system's.
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #theirs)
SAME(0x001, EPOLLIN); SAME(0x004, EPOLLOUT); SAME(0x008, EPOLLERR); SAME(0x010, EPOLLHUP);
SAME(1u << 31, EPOLLET);
SAME(4, EINTR); SAME(11, EAGAIN); SAME(EWOULDBLOCK, EAGAIN); SAME(12, ENOMEM); SAME(22, EINVAL);
SAME(23, ENFILE); SAME(24, EMFILE); SAME(32, EPIPE); SAME(71, EPROTO); SAME(98, EADDRINUSE);
SAME(103, ECONNABORTED); SAME(104, ECONNRESET); SAME(105, ENOBUFS); SAME(110, ETIMEDOUT);
SAME(111, ECONNREFUSED); SAME(115, EINPROGRESS);
SAME(1, SIGHUP); SAME(2, SIGINT); SAME(15, SIGTERM);
SAME(1024, IOV_MAX);
SAME(sizeof(pando_slice), sizeof(struct iovec));
SAME(offsetof(pando_slice, base), offsetof(struct iovec, iov_base));
SAME(offsetof(pando_slice, count), offsetof(struct iovec, iov_len));
SAME(sizeof(pthread_t), sizeof(uint64_t));

#define RESULT(call) ({ __typeof__(call) r_ = (call); r_ < 0 ? -errno : r_; })
#define REPEAT(call) \
    ({ __typeof__(call) r_; do r_ = (call); while (r_ < 0 && errno == EINTR); r_ < 0 ? -errno : r_; })

// Polling

int32_t pando_poll_create(void) { return RESULT(epoll_create1(EPOLL_CLOEXEC)); }

static int32_t control(int32_t poll, int operation, int32_t fd, uint32_t interest, void *owner) {
    struct epoll_event event = {.events = interest, .data.ptr = owner};
    return RESULT(epoll_ctl(poll, operation, fd, &event));
}

int32_t pando_poll_add(int32_t poll, int32_t fd, uint32_t interest, void *owner) {
    return control(poll, EPOLL_CTL_ADD, fd, interest, owner);
}

int32_t pando_poll_change(int32_t poll, int32_t fd, uint32_t interest, void *owner) {
    return control(poll, EPOLL_CTL_MOD, fd, interest, owner);
}

int32_t pando_poll_remove(int32_t poll, int32_t fd) { return control(poll, EPOLL_CTL_DEL, fd, 0, NULL); }

int32_t pando_poll_wait(int32_t poll, pando_event *events, int32_t capacity, int32_t timeout_ms) {
    // epoll_event is packed on x86-64 and not elsewhere; copying 12 bytes an event hides that from Swift.
    struct epoll_event ready[PANDO_EVENT_LIMIT];
    if (capacity > PANDO_EVENT_LIMIT) capacity = PANDO_EVENT_LIMIT;
    int count = epoll_wait(poll, ready, capacity, timeout_ms);
    if (count < 0) return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++)
        events[i] = (pando_event){.owner = ready[i].data.ptr, .ready = ready[i].events};
    return count;
}

int32_t pando_wait_readable(int32_t fd, int32_t timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    int count = poll(&entry, 1, timeout_ms);
    if (count < 0) return errno == EINTR ? 0 : -errno;
    return count;
}

int32_t pando_eventfd_create(void) { return RESULT(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

int32_t pando_eventfd_signal(int32_t fd) {
    uint64_t one = 1;
    return REPEAT(write(fd, &one, sizeof one)) < 0 ? -errno : 0;
}

int32_t pando_eventfd_clear(int32_t fd) {
    uint64_t count;
    return REPEAT(read(fd, &count, sizeof count)) < 0 ? -errno : 0;
}

// Signals

static void handled_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

int32_t pando_signals_block(void) {
    sigset_t set;
    handled_signals(&set);
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) return -errno;
    // At the file size limit a write fails with EFBIG, which its caller reports, instead of killing the process.
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR) return -errno;
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void end_process(int number) {
    _exit(128 + number);
}

int32_t pando_signals_end_process(int32_t do_end) {
    // The kernel discards a signal to the first process of a container that has no handler. It stays: a blocked signal is read.
    if (getpid() == 1) {
        struct sigaction action = {0};
        action.sa_handler = end_process;
        if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0) return -errno;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return -pthread_sigmask(do_end ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

int32_t pando_signalfd_create(void) {
    sigset_t set;
    handled_signals(&set);
    return RESULT(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

int32_t pando_signalfd_next(int32_t fd) {
    struct signalfd_siginfo info;
    ssize_t count = REPEAT(read(fd, &info, sizeof info));
    if (count < 0) return (int32_t)count;
    return count == sizeof info ? (int32_t)info.ssi_signo : -EAGAIN;
}

int32_t pando_timerfd_create(void) {
    return RESULT(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
}

int32_t pando_timerfd_set(int32_t fd, uint64_t deadline_ns) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)},
    };
    return RESULT(timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL));
}

// Sockets

// Linux has released the descriptor even when close reports EINTR: a repeated call could close another file's.
int32_t pando_close(int32_t fd) { return RESULT(close(fd)); }

int32_t pando_linger_zero(int32_t fd) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    return RESULT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

int32_t pando_unacknowledged(int32_t fd) {
    int count = 0;
    int32_t result = RESULT(ioctl(fd, SIOCOUTQ, &count));
    return result < 0 ? result : count;
}

int32_t pando_shutdown_write(int32_t fd) { return RESULT(shutdown(fd, SHUT_WR)); }

int64_t pando_receive(int32_t fd, void *bytes, size_t capacity) {
    return REPEAT(recv(fd, bytes, capacity, 0));
}

int64_t pando_peek(int32_t fd, void *bytes, size_t capacity) {
    return REPEAT(recv(fd, bytes, capacity, MSG_PEEK));
}

int32_t pando_has_input(int32_t fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

int32_t pando_peer_has_closed(int32_t fd) {
    struct pollfd entry = {.fd = fd, .events = POLLRDHUP};
    return poll(&entry, 1, 0) > 0;
}

int64_t pando_send(int32_t fd, const void *bytes, size_t count) {
    return REPEAT(send(fd, bytes, count, MSG_NOSIGNAL));
}

int64_t pando_send_slices(int32_t fd, const pando_slice *slices, int32_t count) {
    // As writev, but with a flag that prevents SIGPIPE.
    struct msghdr message = {.msg_iov = (struct iovec *)slices, .msg_iovlen = (size_t)count};
    return REPEAT(sendmsg(fd, &message, MSG_NOSIGNAL));
}

static int32_t integer_option(int32_t fd, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    if (getsockopt(fd, level, name, &value, &size) < 0) return -errno;
    return value;
}

int32_t pando_socket_error(int32_t fd) {
    int32_t error = integer_option(fd, SOL_SOCKET, SO_ERROR);
    return error < 0 ? -error : error;
}

int32_t pando_no_delay(int32_t fd) { return integer_option(fd, IPPROTO_TCP, TCP_NODELAY) != 0; }
int32_t pando_user_timeout_ms(int32_t fd) { return integer_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT); }

static int set(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value);
}

static int apply(int fd, const pando_socket_options *o) {
    if (set(fd, IPPROTO_TCP, TCP_NODELAY, 1) < 0) return -1;
    if (o->user_timeout_ms && set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)o->user_timeout_ms) < 0) return -1;
    if (o->keepalive_idle_s) {
        if (set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) < 0) return -1;
        if (set(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)o->keepalive_idle_s) < 0) return -1;
        if (o->keepalive_interval_s && set(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)o->keepalive_interval_s) < 0)
            return -1;
        if (o->keepalive_count && set(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)o->keepalive_count) < 0) return -1;
    }
    if (o->send_buffer_bytes && set(fd, SOL_SOCKET, SO_SNDBUF, (int)o->send_buffer_bytes) < 0) return -1;
    if (o->unsent_low_water_bytes
        && set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)o->unsent_low_water_bytes) < 0)
        return -1;
    if (o->receive_buffer_bytes && set(fd, SOL_SOCKET, SO_RCVBUF, (int)o->receive_buffer_bytes) < 0)
        return -1;
    return 0;
}

typedef union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
} any_address;

static socklen_t to_system(const pando_address *from, any_address *to) {
    memset(to, 0, sizeof *to);
    if (from->family == 4) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(from->port);
        memcpy(&to->v4.sin_addr, from->bytes, 4);
        return sizeof to->v4;
    }
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons(from->port);
    to->v6.sin6_scope_id = from->scope;
    memcpy(&to->v6.sin6_addr, from->bytes, 16);
    return sizeof to->v6;
}

static int32_t from_system(const any_address *from, pando_address *to) {
    memset(to, 0, sizeof *to);
    switch (from->any.sa_family) {
    case AF_INET:
        to->family = 4;
        to->port = ntohs(from->v4.sin_port);
        memcpy(to->bytes, &from->v4.sin_addr, 4);
        return 4;
    case AF_INET6:
        to->family = 6;
        to->port = ntohs(from->v6.sin6_port);
        to->scope = from->v6.sin6_scope_id;
        memcpy(to->bytes, &from->v6.sin6_addr, 16);
        return 6;
    case AF_UNIX:
        to->family = 1;
        return 1;
    default:
        return -EINVAL;
    }
}

static int32_t failed(int fd) {
    int error = errno;
    close(fd);
    return -error;
}

int32_t pando_listen(const pando_address *address, int32_t backlog, const pando_socket_options *options) {
    any_address system;
    socklen_t size = to_system(address, &system);
    int fd = socket(system.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (set(fd, SOL_SOCKET, SO_REUSEADDR, 1) < 0) return failed(fd);
    // `::` serves IPv4 too, whatever the machine's default is, unless another socket does.
    if (address->family == 6 && set(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->v6_only != 0) < 0) return failed(fd);
    if (apply(fd, options) < 0) return failed(fd);
    if (bind(fd, &system.any, size) < 0) return failed(fd);
    if (listen(fd, backlog) < 0) return failed(fd);
    return fd;
}

// Whether a process listens on a Unix socket: one that is gone has left its name.
static int is_abandoned(const struct sockaddr_un *address) {
    struct stat status;
    if (lstat(address->sun_path, &status) < 0 || !S_ISSOCK(status.st_mode)) return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    int result = connect(fd, (const struct sockaddr *)address, sizeof *address);
    int error = errno;
    close(fd);
    return result < 0 && error == ECONNREFUSED;
}

// Locks the directory of a path, so that of two processes that start at once and find the same abandoned socket, one does not
// remove the socket of the other. A directory that another program keeps locked, or that cannot be opened, is used without.
static int lock_directory(const char *path) {
    char directory[sizeof((struct sockaddr_un *)0)->sun_path];
    const char *end = strrchr(path, '/');
    size_t count = end == NULL ? 0 : (size_t)(end - path) + 1;
    if (count >= sizeof directory) return -1;
    memcpy(directory, path, count);
    directory[count] = 0;
    int fd = open(count > 0 ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    // A second: a start holds the lock for some system calls.
    for (int attempt = 0; attempt < 200; attempt++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    close(fd);
    return -1;
}

static int32_t listen_unix(const char *path, int32_t backlog, pando_file_identity *made) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t count = strlen(path);
    if (count == 0 || count >= sizeof address.sun_path) return -EINVAL;
    memcpy(address.sun_path, path, count + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno != EADDRINUSE) return failed(fd);
        if (!is_abandoned(&address)) {
            errno = EADDRINUSE;
            return failed(fd);
        }
        if (unlink(path) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0) return failed(fd);
    }
    struct stat status;
    if (lstat(path, &status) < 0 || listen(fd, backlog) < 0) {
        int error = errno;
        unlink(path);
        errno = error;
        return failed(fd);
    }
    *made = (pando_file_identity){.device = status.st_dev, .inode = status.st_ino};
    return fd;
}

int32_t pando_listen_unix(const char *path, int32_t backlog, pando_file_identity *made) {
    int lock = lock_directory(path);
    int32_t result = listen_unix(path, backlog, made);
    if (lock >= 0) close(lock);
    return result;
}

int32_t pando_adopt_listener(int32_t fd, const pando_socket_options *options) {
    if (integer_option(fd, SOL_SOCKET, SO_ACCEPTCONN) != 1) return -EINVAL;
    if (integer_option(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM) return -EINVAL;
    int32_t domain = integer_option(fd, SOL_SOCKET, SO_DOMAIN);
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) return -EINVAL;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return -errno;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return -errno;
    if (domain != AF_UNIX && apply(fd, options) < 0) return -errno;
    return fd;
}

int32_t pando_send_datagram(const char *name, const void *bytes, size_t count) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length < 2 || length >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return -EINVAL;
    memcpy(address.sun_path, name, length);
    // unix(7): an abstract name begins with a null byte, and has no byte behind it.
    int is_abstract = name[0] == '@';
    if (is_abstract) address.sun_path[0] = 0;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (is_abstract ? 0 : 1));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    ssize_t sent = REPEAT(sendto(fd, bytes, count, MSG_NOSIGNAL, (struct sockaddr *)&address, size));
    close(fd);
    return sent < 0 ? (int32_t)sent : 0;
}

void pando_remove_socket(const char *path, const pando_file_identity *made) {
    struct stat status;
    if (lstat(path, &status) == 0 && status.st_dev == made->device && status.st_ino == made->inode) unlink(path);
}

int32_t pando_process_id(void) { return (int32_t)getpid(); }

int32_t pando_accept(int32_t fd, pando_address *peer) {
    any_address system;
    memset(&system, 0, sizeof system);
    socklen_t size = sizeof system;
    int32_t accepted = REPEAT(accept4(fd, &system.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted >= 0) from_system(&system, peer);
    return accepted;
}

int32_t pando_connect(const pando_address *address, const pando_socket_options *options) {
    any_address system;
    socklen_t size = to_system(address, &system);
    int fd = socket(system.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (apply(fd, options) < 0) return failed(fd);
    // An interrupted connect goes on in the background, as one in progress does.
    if (connect(fd, &system.any, size) < 0 && errno != EINPROGRESS && errno != EINTR) return failed(fd);
    return fd;
}

int32_t pando_local_address(int32_t fd, pando_address *address) {
    any_address system;
    socklen_t size = sizeof system;
    if (getsockname(fd, &system.any, &size) < 0) return -errno;
    return from_system(&system, address);
}

int32_t pando_peer_address(int32_t fd, pando_address *address) {
    any_address system;
    socklen_t size = sizeof system;
    if (getpeername(fd, &system.any, &size) < 0) return -errno;
    return from_system(&system, address);
}

// Addresses

static int32_t look_up(
    const char *host, uint16_t port, int flags, pando_address *addresses, int32_t capacity
) {
    struct addrinfo hints = {.ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int result = getaddrinfo(host, NULL, &hints, &found);
    if (result != 0) return result == EAI_AGAIN ? -EAGAIN : -EINVAL;
    int32_t count = 0;
    for (struct addrinfo *each = found; each && count < capacity; each = each->ai_next) {
        any_address system;
        if (each->ai_addrlen > sizeof system) continue;
        memcpy(&system, each->ai_addr, each->ai_addrlen);
        if (from_system(&system, &addresses[count]) < 0) continue;
        addresses[count++].port = port;
    }
    freeaddrinfo(found);
    return count > 0 ? count : -EINVAL;
}

int32_t pando_address_parse(const char *text, uint16_t port, pando_address *address) {
    // inet_pton first: getaddrinfo would also take `127.1` and `0x7f000001`.
    memset(address, 0, sizeof *address);
    address->port = port;
    if (inet_pton(AF_INET, text, address->bytes) == 1) return address->family = 4;
    if (inet_pton(AF_INET6, text, address->bytes) == 1) return address->family = 6;
    if (!strchr(text, ':') || !strchr(text, '%')) return -EINVAL;
    int32_t count = look_up(text, port, AI_NUMERICHOST, address, 1);
    return count < 0 ? count : address->family;
}

int32_t pando_address_resolve(const char *host, uint16_t port, pando_address *addresses, int32_t capacity) {
    return look_up(host, port, 0, addresses, capacity);
}

int32_t pando_address_print(const pando_address *address, char *text, size_t capacity) {
    if (address->family == 1) return snprintf(text, capacity, "unix") < 0 ? -EINVAL : 0;
    int family = address->family == 4 ? AF_INET : AF_INET6;
    if (!inet_ntop(family, address->bytes, text, (socklen_t)capacity)) return -errno;
    if (address->family == 6 && address->scope != 0) {
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%%%u", address->scope);
    }
    return 0;
}

// Time and threads

uint64_t pando_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pando_lower_thread_priority(int niceness) {
#ifdef __linux__
    // On Linux each thread has a nice value of its own. Where this is not allowed, the thread keeps its priority.
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), niceness);
#endif
}

// struct sched_attr of sched_setattr(2), first version. Before version 2.41 the C library does not declare it.
struct scheduling {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;
    uint64_t deadline;
    uint64_t period;
};

// Of the calling thread. Whether it has a policy whose time slice is its runtime.
static int get_scheduling(struct scheduling *scheduling) {
    memset(scheduling, 0, sizeof *scheduling);
    return syscall(SYS_sched_getattr, 0, scheduling, sizeof *scheduling, 0) == 0 &&
           (scheduling->policy == SCHED_OTHER || scheduling->policy == SCHED_BATCH);
}

void pando_set_time_slice(uint64_t nanoseconds) {
    struct scheduling scheduling;
    if (!get_scheduling(&scheduling)) return;
    scheduling.size = sizeof scheduling;
    scheduling.runtime = nanoseconds;
    // Before Linux 6.12 this changes nothing; where it is not allowed, the thread keeps its slice.
    syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

uint64_t pando_time_slice_ns(void) {
    struct scheduling scheduling;
    return get_scheduling(&scheduling) ? scheduling.runtime : 0;
}

uint64_t pando_thread_id(void) { return (uint64_t)pthread_self(); }

struct start {
    void (*body)(void *);
    void *context;
};

static void *begin(void *argument) {
    struct start start = *(struct start *)argument;
    free(argument);
    start.body(start.context);
    return NULL;
}

int32_t pando_thread_start(
    const char *name, size_t stack_bytes, void (*body)(void *), void *context, uint64_t *handle
) {
    struct start *start = malloc(sizeof *start);
    if (!start) return -ENOMEM;
    *start = (struct start){body, context};
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (!error) {
        error = pthread_attr_setstacksize(&attributes, stack_bytes);
        pthread_t thread;
        if (!error) error = pthread_create(&thread, &attributes, begin, start);
        pthread_attr_destroy(&attributes);
        if (!error) {
            char short_name[16];
            snprintf(short_name, sizeof short_name, "%s", name);
            pthread_setname_np(thread, short_name);
            *handle = (uint64_t)thread;
            return 0;
        }
    }
    free(start);
    return -error;
}

int32_t pando_thread_join(uint64_t handle) { return -pthread_join((pthread_t)handle, NULL); }

int32_t pando_thread_join_until(uint64_t handle, uint64_t deadline_ns) {
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
    int error = pthread_clockjoin_np((pthread_t)handle, NULL, CLOCK_MONOTONIC, &deadline);
    if (error == 0) return 1;
    if (error != ETIMEDOUT) return -error;
    return -pthread_detach((pthread_t)handle);
}

int32_t pando_usable_processor_count(void) {
    cpu_set_t set;
    // Fails where the machine has more processors than the set has bits.
    long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int32_t)count : 1;
}

void pando_error_text(int32_t code, char *text, size_t capacity) {
    // GNU's strerror_r may return a string of its own instead of using the buffer.
    const char *message = strerror_r(code, text, capacity);
    if (message != text) snprintf(text, capacity, "%s", message);
}
