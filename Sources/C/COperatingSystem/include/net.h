// Sockets, polling, signals and threads for the module Reactor.
//
// Includes no system header: Swift sees only the plain types below, so they cannot conflict with another module's
// `sockaddr` or `iovec`. net.c asserts that the numbers are the system's.
//
// Every function that can fail returns a value >= 0, or -errno. Calls that a signal interrupts are repeated, except those
// that wait: they return 0, as after a timeout.
#ifndef PANDO_NET_H
#define PANDO_NET_H

#include <stddef.h>
#include <stdint.h>

// What a descriptor can be ready for: the bits of epoll(7).
static const uint32_t PANDO_READABLE = 0x001;
static const uint32_t PANDO_WRITABLE = 0x004;
static const uint32_t PANDO_FAILED = 0x008;
static const uint32_t PANDO_HUNG_UP = 0x010;
static const uint32_t PANDO_EDGE = 1u << 31;

static const int32_t PANDO_EINTR = 4;
static const int32_t PANDO_EAGAIN = 11;
static const int32_t PANDO_ENOMEM = 12;
static const int32_t PANDO_EACCES = 13;
static const int32_t PANDO_EINVAL = 22;
static const int32_t PANDO_ENFILE = 23;
static const int32_t PANDO_EMFILE = 24;
static const int32_t PANDO_EPIPE = 32;
static const int32_t PANDO_EPROTO = 71;
static const int32_t PANDO_EADDRINUSE = 98;
static const int32_t PANDO_ECONNABORTED = 103;
static const int32_t PANDO_ECONNRESET = 104;
static const int32_t PANDO_ENOBUFS = 105;
static const int32_t PANDO_ETIMEDOUT = 110;
static const int32_t PANDO_ECONNREFUSED = 111;
static const int32_t PANDO_EINPROGRESS = 115;

static const int32_t PANDO_SIGHUP = 1;
static const int32_t PANDO_SIGINT = 2;
static const int32_t PANDO_SIGTERM = 15;

/// Most slices of one `pando_send_slices` (IOV_MAX).
static const int32_t PANDO_SLICE_LIMIT = 1024;
/// Most events of one `pando_poll_wait`.
static const int32_t PANDO_EVENT_LIMIT = 512;

typedef struct pando_event {
    void *owner;
    uint32_t ready;
} pando_event;

/// With the layout of `struct iovec`.
typedef struct pando_slice {
    const void *base;
    size_t count;
} pando_slice;

/// An IPv4 or IPv6 address and port. `family` is 4 or 6; an IPv4 address fills the first four bytes. 1 is a Unix socket,
/// which has neither.
typedef struct pando_address {
    uint8_t bytes[16];
    uint32_t scope;
    uint16_t port;
    uint8_t family;
} pando_address;

/// Socket options; 0 leaves the system's default.
typedef struct pando_socket_options {
    uint32_t user_timeout_ms;
    uint32_t keepalive_idle_s;
    uint32_t keepalive_interval_s;
    uint32_t keepalive_count;
    uint32_t send_buffer_bytes;
    uint32_t receive_buffer_bytes;
    uint32_t unsent_low_water_bytes;
    /// A listening socket of IPv6 does not serve IPv4.
    uint32_t v6_only;
} pando_socket_options;

int32_t pando_poll_create(void);
int32_t pando_poll_add(int32_t poll, int32_t fd, uint32_t interest, void *owner);
int32_t pando_poll_change(int32_t poll, int32_t fd, uint32_t interest, void *owner);
int32_t pando_poll_remove(int32_t poll, int32_t fd);
/// Waits up to `timeout_ms` (-1: for ever) and fills at most `capacity` events; 0 after a timeout or a
/// signal.
int32_t pando_poll_wait(int32_t poll, pando_event *events, int32_t capacity, int32_t timeout_ms);
/// Waits until one descriptor is readable: 1, or 0 after a timeout or a signal.
int32_t pando_wait_readable(int32_t fd, int32_t timeout_ms);

int32_t pando_eventfd_create(void);
/// Makes the eventfd readable.
int32_t pando_eventfd_signal(int32_t fd);
/// Makes the eventfd unreadable.
int32_t pando_eventfd_clear(int32_t fd);

/// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread (and those it starts) and ignores SIGPIPE.
int32_t pando_signals_block(void);
/// Lets SIGTERM and SIGINT end the process while the calling thread does something that may be ended at any time (1), or
/// blocks them again (0).
int32_t pando_signals_end_process(int32_t do_end);
int32_t pando_signalfd_create(void);
/// The next pending signal's number, or -EAGAIN.
int32_t pando_signalfd_next(int32_t fd);

/// A timer on the clock of pando_monotonic_ns.
int32_t pando_timerfd_create(void);
/// The timer becomes readable at that moment, at once if it is past; 0 disarms it. An earlier expiry is discarded.
int32_t pando_timerfd_set(int32_t fd, uint64_t deadline_ns);

int32_t pando_close(int32_t fd);
/// Makes the following close send RST and discard unsent data (SO_LINGER).
int32_t pando_linger_zero(int32_t fd);
int32_t pando_shutdown_write(int32_t fd);
int64_t pando_receive(int32_t fd, void *bytes, size_t capacity);
/// As `pando_receive`; the bytes stay in the socket.
int64_t pando_peek(int32_t fd, void *bytes, size_t capacity);
/// Whether there are bytes that were not read yet. Reads none.
int32_t pando_has_input(int32_t fd);
/// Whether the peer sends no more, although there may be bytes that were not read yet (POLLRDHUP of poll(2)).
int32_t pando_peer_has_closed(int32_t fd);
int64_t pando_send(int32_t fd, const void *bytes, size_t count);
int64_t pando_send_slices(int32_t fd, const pando_slice *slices, int32_t count);
/// Bytes that were sent and that the peer has not acknowledged yet (SIOCOUTQ), or a negative errno.
int32_t pando_unacknowledged(int32_t fd);
/// The socket's pending error as a positive errno, 0 for none.
int32_t pando_socket_error(int32_t fd);

/// A bound, listening, non-blocking socket. Accepted sockets inherit TCP_NODELAY and the options.
int32_t pando_listen(const pando_address *address, int32_t backlog, const pando_socket_options *options);
/// Which file it is: no other has the same while it exists, or while a process has the socket that it names.
typedef struct pando_file_identity {
    uint64_t device, inode;
} pando_file_identity;
/// The same on a Unix socket. A name that a process has left behind is replaced. -EINVAL for a path that is too long.
/// `made` gets which file the name is.
int32_t pando_listen_unix(const char *path, int32_t backlog, pando_file_identity *made);
/// Makes a listening stream socket that was passed to this process as `pando_listen` makes its own; -EINVAL for any other
/// descriptor.
int32_t pando_adopt_listener(int32_t fd, const pando_socket_options *options);
/// Sends one datagram to a Unix socket: a path, or an abstract name behind `@`. -EINVAL for any other name, and for one
/// that is too long.
int32_t pando_send_datagram(const char *name, const void *bytes, size_t count);
/// Removes the name of a Unix socket that this process has open, if it is still the one that `pando_listen_unix` made.
void pando_remove_socket(const char *path, const pando_file_identity *made);
int32_t pando_process_id(void);
int32_t pando_accept(int32_t fd, pando_address *peer);
/// A non-blocking socket whose connection has begun; it is writable when the attempt is over.
int32_t pando_connect(const pando_address *address, const pando_socket_options *options);
int32_t pando_local_address(int32_t fd, pando_address *address);
int32_t pando_peer_address(int32_t fd, pando_address *address);
/// TCP_NODELAY as the kernel sees it: 0 or 1.
int32_t pando_no_delay(int32_t fd);
int32_t pando_user_timeout_ms(int32_t fd);

/// Parses a numeric address; `%scope` is allowed for IPv6. 4 or 6, or -EINVAL.
int32_t pando_address_parse(const char *text, uint16_t port, pando_address *address);
/// Writes the address without the port, null-terminated; 46 + 11 bytes always suffice.
int32_t pando_address_print(const pando_address *address, char *text, size_t capacity);
/// Asks the resolver, which may block: how many addresses were filled, or -EINVAL when the name is unknown.
int32_t pando_address_resolve(const char *host, uint16_t port, pando_address *addresses, int32_t capacity);

/// Nanoseconds of CLOCK_MONOTONIC.
uint64_t pando_monotonic_ns(void);
/// A number that identifies the calling thread among the running ones; never 0.
uint64_t pando_thread_id(void);
/// Sets the nice value of the calling thread (setpriority(2); Linux has one for each thread): 1 to 19.
void pando_lower_thread_priority(int niceness);
/// Sets the time slice of the calling thread (sched_setattr(2), Linux 6.12 and later), if its policy is
/// SCHED_OTHER or SCHED_BATCH. Where this is not possible, the thread keeps its slice.
void pando_set_time_slice(uint64_t nanoseconds);
/// The time slice of the calling thread in nanoseconds (sched_getattr(2)); 0 where it is not known.
uint64_t pando_time_slice_ns(void);
/// Starts a joinable thread; `name` is cut to 15 bytes. `handle` is for `pando_thread_join`.
int32_t pando_thread_start(
    const char *name, size_t stack_bytes, void (*body)(void *), void *context, uint64_t *handle);
int32_t pando_thread_join(uint64_t handle);
/// Waits until the thread ends, or until a time of pando_monotonic_ns: 1 where it has ended, 0 where not. Then it is
/// detached: its handle must not be used any more.
int32_t pando_thread_join_until(uint64_t handle, uint64_t deadline_ns);
/// How many processors this process may run on (sched_getaffinity(2)); at least 1.
int32_t pando_usable_processor_count(void);
void pando_error_text(int32_t code, char *text, size_t capacity);

#endif
