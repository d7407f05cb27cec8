// The functions of libssl and libcrypto that the module TLS calls. OpenSSL's own headers are included only in the C files.
//
// libssl makes the handshake, with bytes in memory on both sides. Then its object is freed, and records are protected
// with libcrypto's AEAD ciphers and the keys of the handshake: libssl's object takes 14 KiB for each connection.
//
// Functions that can fail return 0 for success, or a negative number; those with `error` write a short text there,
// null-terminated. No function blocks or reads a file.
#ifndef PANDO_CTLS_H
#define PANDO_CTLS_H

#include <stddef.h>
#include <stdint.h>

/// A sufficient capacity for error texts.
static const int32_t PANDO_TLS_ERROR_BYTE_COUNT = 200;

// Ticket keys

/// Keys for session tickets (RFC 5077, RFC 8446 §4.6.1): the current one, and earlier ones whose tickets are accepted.
/// Thread-safe.
typedef struct pando_tls_tickets pando_tls_tickets;
/// NULL where there is no memory or no randomness.
pando_tls_tickets *pando_tls_tickets_new(void);
void pando_tls_tickets_free(pando_tls_tickets *tickets);
/// Makes a new key the current one. Tickets of the two keys before it are accepted.
int32_t pando_tls_tickets_rotate(pando_tls_tickets *tickets);

// Contexts

typedef struct pando_tls_context pando_tls_context;
/// Chooses the context for a client that names a host (SNI, RFC 6066 §3): NULL leaves the handshake's own.
typedef pando_tls_context *(*pando_tls_choose)(const void *chooser, const char *name, size_t count);

/// For TLS 1.2 and 1.3 as a server. `tickets` must outlive it.
pando_tls_context *pando_tls_server_context(pando_tls_tickets *tickets);
/// Session tickets that a client of TLS 1.3 gets with each connection: 1 unless this is called.
void pando_tls_context_set_ticket_count(pando_tls_context *context, size_t count);
/// For TLS 1.2 and 1.3 as a client, without trusted issuers at first.
pando_tls_context *pando_tls_client_context(void);
void pando_tls_context_free(pando_tls_context *context);
/// Takes a certificate with its chain and its private key, both as PEM.
int32_t pando_tls_context_use(
    pando_tls_context *context, const void *chain, size_t chain_count, const void *key, size_t key_count, char *error);
/// Asks clients for a certificate of these issuers (PEM), and accepts clients without one.
int32_t pando_tls_context_ask_clients(pando_tls_context *context, const void *issuers, size_t count, char *error);
/// As a client: trusts these issuers (PEM).
int32_t pando_tls_context_trust(pando_tls_context *context, const void *issuers, size_t count, char *error);
/// As a client: trusts the system's issuers.
int32_t pando_tls_context_trust_system(pando_tls_context *context);
/// Calls `body` with each host name of the certificate: the first `limit` names of its subjectAltName, as far as they are
/// DNS names of at most `byte_limit` bytes, or its common name where it has none. A name is not terminated.
void pando_tls_context_names(
    pando_tls_context *context, int32_t limit, size_t byte_limit, void (*body)(void *list, const char *name, size_t count),
    void *list);
/// Bits of the private key where it is one of RSA, else 0.
int32_t pando_tls_context_rsa_bits(pando_tls_context *context);
/// From when on the certificate is valid, in seconds since 1970.
int64_t pando_tls_context_begin(pando_tls_context *context);
/// When the certificate ends, in seconds since 1970.
int64_t pando_tls_context_expiry(pando_tls_context *context);
/// Limits what a client offers, for tests: versions as 0x0303 and 0x0304, 0 for no limit; ciphers by OpenSSL's names of
/// TLS 1.2 or of TLS 1.3; NULL for no change.
int32_t pando_tls_context_limit(
    pando_tls_context *context, int32_t lowest, int32_t highest, const char *ciphers12, const char *ciphers13);

// Handshakes

typedef struct pando_tls_handshake pando_tls_handshake;

typedef enum pando_tls_progress {
    PANDO_TLS_WANTS_INPUT = 0,
    PANDO_TLS_IS_DONE = 1,
    PANDO_TLS_HAS_FAILED = -1,
} pando_tls_progress;

typedef enum pando_tls_cipher {
    PANDO_AES_128_GCM = 0,
    PANDO_AES_256_GCM = 1,
    PANDO_CHACHA20_POLY1305 = 2,
} pando_tls_cipher;

/// What a handshake has agreed on.
typedef struct pando_tls_facts {
    pando_tls_cipher cipher;
    /// 0x0303 or 0x0304.
    uint16_t version;
    uint8_t is_resumed;
    /// ALPN (RFC 7301) has agreed on http/1.1.
    uint8_t has_protocol;
    /// The client has shown a certificate of the issuers of `pando_tls_context_ask_clients`, in this handshake.
    uint8_t has_client_certificate;
} pando_tls_facts;

/// `host` is a client's name for the server: checked against its certificate and sent as SNI (an IP address is only
/// checked). NULL for no check and no SNI. The context must outlive it.
pando_tls_handshake *pando_tls_client_handshake(pando_tls_context *context, const char *host);
/// `choose` is called with `chooser` during the handshake only. The contexts must outlive it.
pando_tls_handshake *pando_tls_server_handshake(
    pando_tls_context *context, pando_tls_choose choose, const void *chooser);
void pando_tls_handshake_free(pando_tls_handshake *handshake);
/// Gives whole records, or what cannot begin one, and goes on with the handshake. Not after it is done or has failed.
pando_tls_progress pando_tls_handshake_advance(
    pando_tls_handshake *handshake, const void *bytes, size_t count, char *error);
/// Whether a server has written all that it says before the client's last messages: its signature is made.
int32_t pando_tls_handshake_has_answered(pando_tls_handshake *handshake);
/// Whether TLS 1.3 was agreed on. Of a server, once it has read a ClientHello.
int32_t pando_tls_handshake_is_13(pando_tls_handshake *handshake);
/// Bytes to send that were not taken yet; also after a failure: an alert.
size_t pando_tls_handshake_output_count(pando_tls_handshake *handshake);
/// Takes bytes to send.
size_t pando_tls_handshake_take(pando_tls_handshake *handshake, void *bytes, size_t capacity);

// Records

/// The keys of one direction, and the number of its next record.
typedef struct pando_record_keys pando_record_keys;

/// The facts and the keys of a handshake that is done; the caller frees the keys. -1 where libssl does not say what is
/// needed, or there is no memory.
int32_t pando_tls_handshake_result(
    pando_tls_handshake *handshake, pando_tls_facts *facts, pando_record_keys **reading, pando_record_keys **writing);
void pando_record_keys_free(pando_record_keys *keys);
/// Goes on to the next generation of keys (RFC 8446 §7.2). Of TLS 1.3 only.
int32_t pando_record_keys_update(pando_record_keys *keys);
/// The number of the next record under these keys.
uint64_t pando_record_sequence(const pando_record_keys *keys);
/// Blocks of 16 bytes that records under these keys have taken.
uint64_t pando_record_block_count(const pando_record_keys *keys);

/// Bytes of a record's header (RFC 8446 §5.1).
static const int32_t PANDO_RECORD_HEADER_BYTE_COUNT = 5;
/// Bytes that a record has between its header and its data: the explicit nonce of GCM in TLS 1.2 (RFC 5288 §3).
size_t pando_record_prefix_byte_count(const pando_record_keys *keys);
/// Most bytes that a record has beyond its data, header included.
static const int32_t PANDO_RECORD_OVERHEAD_BYTE_COUNT = 5 + 8 + 1 + 16;

/// Writes a record of at most 16384 bytes of data to `record`. `data` may be where the record's data begins, behind header
/// and prefix, and must not overlap `record` otherwise. The record's size, or -1.
int64_t pando_record_seal(
    pando_record_keys *keys, uint8_t type, const void *data, size_t count, uint8_t *record);

/// Why a record was not opened.
static const int32_t PANDO_RECORD_BAD_MAC = -1;
static const int32_t PANDO_RECORD_TOO_LONG = -2;
static const int32_t PANDO_RECORD_WITHOUT_TYPE = -3;
/// Opens a whole record of `count` bytes in place: its type, and where its data is. 0, or one of the numbers above.
int32_t pando_record_open(
    pando_record_keys *keys, uint8_t *record, size_t count, uint8_t *type, size_t *data_offset, size_t *data_count);

// Files

/// What a file looked like: one that was replaced or changed looks different.
typedef struct pando_file_stamp {
    uint64_t device, inode, byte_count;
    int64_t modified_ns, changed_ns;
    uint32_t mode;
} pando_file_stamp;
/// 0, or -errno.
int32_t pando_tls_file_stamp(const char *path, pando_file_stamp *stamp);
/// `EFBIG` of errno.h.
static const int32_t PANDO_TLS_EFBIG = 27;
/// Reads a regular file into `bytes`: how many, or -errno; -EFBIG where it has more than `capacity`.
int64_t pando_tls_file_read(const char *path, void *bytes, size_t capacity);
/// Calls `body` with each name in a directory but `.` and `..`: 0, or -errno.
int32_t pando_tls_directory(const char *path, void (*body)(void *context, const char *name), void *context);
/// The system's text for an errno.
void pando_tls_errno_text(int32_t code, char *text, size_t capacity);

#endif
