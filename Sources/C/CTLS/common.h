#ifndef PANDO_CTLS_COMMON_H
#define PANDO_CTLS_COMMON_H

#include "ctls.h"

#include <openssl/ssl.h>

#define AS_SSL_CTX(context) ((SSL_CTX *)(context))

/// Writes why the last call failed, and clears OpenSSL's queue of errors. `what` where the queue says nothing.
void pando_tls_explain(char *error, const char *what);

struct pando_tls_handshake {
    SSL *ssl;
    /// Records to libssl, and from it. Both are owned by `ssl`.
    BIO *input, *output;
    uint8_t is_server;
    pando_tls_choose choose;
    const void *chooser;
    /// Whether our Finished was written; records after it are the first ones with the final keys.
    uint8_t has_finished;
    uint64_t final_record_count;
    /// Of TLS 1.3: of the client and of the server.
    uint8_t secrets[2][48];
    size_t secret_counts[2];
};

struct pando_record_keys {
    EVP_CIPHER_CTX *cipher;
    /// Of the next record.
    uint64_t sequence;
    /// Of the cipher, under these keys.
    uint64_t block_count;
    /// The traffic secret, of TLS 1.3 only.
    uint8_t secret[48];
    /// TLS 1.3 and ChaCha20: 12 bytes. GCM of TLS 1.2: 4 bytes.
    uint8_t iv[12];
    /// A pando_tls_cipher.
    uint8_t kind;
    uint8_t is_13;
    /// The digest of the key schedule is SHA-384, else SHA-256.
    uint8_t uses_sha384;
};

/// Bytes of a cipher's key.
size_t pando_tls_key_count(pando_tls_cipher cipher);
/// Keys without a secret. NULL where there is no memory.
pando_record_keys *pando_record_keys_new(
    pando_tls_cipher cipher, int is_13, int uses_sha384, int is_sealing);
/// Sets the key of a direction, whose IV the caller has set.
int pando_record_keys_set(pando_record_keys *keys, const uint8_t *key);
/// Key and IV of TLS 1.3 from the secret.
int pando_record_keys_derive(pando_record_keys *keys);

/// Callbacks that handshakes need from their context.
void pando_tls_observe(SSL_CTX *context);

#endif
