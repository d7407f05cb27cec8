// Contexts: what a process offers, accepts and trusts.
#define _GNU_SOURCE
#include "common.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

// Forward secrecy and AEAD only (RFC 9325 §4.2). The record layer knows these ciphers and no others.
static const char CIPHERS_12[] =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char CIPHERS_13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char GROUPS[] = "X25519:P-256:P-384";
static const unsigned char PROTOCOL[] = "\x08http/1.1";

/// Bytes of the certificates that a client may send: four with RSA keys of 4096 bits, at about 2 KB each. A client needs no
/// right to send them, and each is parsed and compared with the others: 110 small ones, of 32 KiB, took 30 ms.
static const long CLIENT_CHAIN_BYTE_LIMIT = 8 << 10;
/// Certificates between a client's and that of a trusted issuer: one or two, as a rule. Each takes the check of a signature.
static const int CLIENT_CHAIN_DEPTH = 5;
/// A ticket is not accepted longer than this; the keys' rotation may end it earlier.
static const long TICKET_LIFETIME_S = 24 * 3600;
/// Certificates of one file.
static const int CERTIFICATE_LIMIT = 1000;

void pando_tls_explain(char *error, const char *what) {
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (error) snprintf(error, (size_t)PANDO_TLS_ERROR_BYTE_COUNT, "%s", reason ? reason : what);
    ERR_clear_error();
}

static SSL_CTX *new_context(const SSL_METHOD *method) {
    // At exit(3), which one thread calls, libcrypto would free what others use.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    SSL_CTX *context = SSL_CTX_new(method);
    if (!context) return NULL;
    SSL_CTX_set_options(
        context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                     SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    // libssl then holds no empty buffers while a handshake waits for the peer; and it sends the chain of the file, and does
    // not look for another one among the issuers of the peers' certificates, in each handshake anew.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, CIPHERS_12) != 1 || SSL_CTX_set_ciphersuites(context, CIPHERS_13) != 1 ||
        SSL_CTX_set1_groups_list(context, GROUPS) != 1) {
        ERR_clear_error();
        SSL_CTX_free(context);
        return NULL;
    }
    pando_tls_observe(context);
    return context;
}

// ALPN

static int select_protocol(
    SSL *ssl, const unsigned char **chosen, unsigned char *chosen_count, const unsigned char *offered,
    unsigned int offered_count, void *unused
) {
    (void)ssl, (void)unused;
    // Without http/1.1 among the offers: the alert no_application_protocol (RFC 7301 §3.2).
    return SSL_select_next_proto(
               (unsigned char **)chosen, chosen_count, PROTOCOL, sizeof PROTOCOL - 1, offered, offered_count) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Host names

static int choose_context(SSL *ssl, int *alert, void *unused) {
    (void)alert, (void)unused;
    pando_tls_handshake *handshake = SSL_get_app_data(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!name || !handshake || !handshake->choose) return SSL_TLSEXT_ERR_NOACK;
    pando_tls_context *chosen = handshake->choose(handshake->chooser, name, strlen(name));
    if (chosen && !SSL_set_SSL_CTX(ssl, AS_SSL_CTX(chosen))) return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

static int tickets_index = -1;
static CRYPTO_ONCE indexes_once = CRYPTO_ONCE_STATIC_INIT;
static void make_indexes(void) { tickets_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL); }

// Tickets

typedef struct ticket_key {
    uint8_t name[16], cipher_key[32], mac_key[32];
} ticket_key;

enum { TICKET_KEY_COUNT = 3 };

struct pando_tls_tickets {
    CRYPTO_RWLOCK *lock;
    /// The current one first.
    ticket_key keys[TICKET_KEY_COUNT];
    int count;
};

pando_tls_tickets *pando_tls_tickets_new(void) {
    pando_tls_tickets *tickets = OPENSSL_zalloc(sizeof *tickets);
    if (!tickets) return NULL;
    tickets->lock = CRYPTO_THREAD_lock_new();
    if (tickets->lock && pando_tls_tickets_rotate(tickets) == 0) return tickets;
    pando_tls_tickets_free(tickets);
    return NULL;
}

void pando_tls_tickets_free(pando_tls_tickets *tickets) {
    if (!tickets) return;
    CRYPTO_THREAD_lock_free(tickets->lock);
    OPENSSL_clear_free(tickets, sizeof *tickets);
}

int32_t pando_tls_tickets_rotate(pando_tls_tickets *tickets) {
    ticket_key made;
    if (RAND_bytes(made.name, sizeof made.name) != 1 || RAND_priv_bytes(made.cipher_key, sizeof made.cipher_key) != 1 ||
        RAND_priv_bytes(made.mac_key, sizeof made.mac_key) != 1 || !CRYPTO_THREAD_write_lock(tickets->lock)) {
        ERR_clear_error();
        return -1;
    }
    memmove(&tickets->keys[1], &tickets->keys[0], sizeof(ticket_key) * (TICKET_KEY_COUNT - 1));
    tickets->keys[0] = made;
    if (tickets->count < TICKET_KEY_COUNT) tickets->count++;
    CRYPTO_THREAD_unlock(tickets->lock);
    OPENSSL_cleanse(&made, sizeof made);
    return 0;
}

/// Finds the key of a ticket, or the current one, and copies it: its place in the list, or -1.
static int find_key(pando_tls_tickets *tickets, const unsigned char *name, ticket_key *found) {
    int place = -1;
    if (!CRYPTO_THREAD_read_lock(tickets->lock)) return -1;
    for (int i = 0; i < tickets->count && place < 0; i++)
        if (!name || memcmp(tickets->keys[i].name, name, sizeof tickets->keys[i].name) == 0) place = i;
    if (place >= 0) *found = tickets->keys[place];
    CRYPTO_THREAD_unlock(tickets->lock);
    return place;
}

/// SSL_CTX_set_tlsext_ticket_key_evp_cb(3): 1, 2 for a ticket to replace, -1 for an error; 0 for none of ours, or for an
/// empty ticket of TLS 1.2 (RFC 5077 §3.3).
static int ticket_callback(
    SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int is_new
) {
    pando_tls_tickets *tickets = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), tickets_index);
    // See `note_client_certificate`: where TLS 1.2 has announced a ticket, before it knew of the certificate.
    if (is_new && SSL_get0_peer_certificate(ssl)) return 0;
    ticket_key key;
    int place = tickets ? find_key(tickets, is_new ? NULL : name, &key) : -1;
    if (place < 0) return is_new ? -1 : 0;
    int result = -1;
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string("key", key.mac_key, sizeof key.mac_key),
        OSSL_PARAM_construct_utf8_string("digest", (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    if (is_new) {
        memcpy(name, key.name, sizeof key.name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
            EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher_key, iv) == 1 &&
            EVP_MAC_CTX_set_params(mac, parameters) == 1)
            result = 1;
    } else if (
        EVP_MAC_CTX_set_params(mac, parameters) == 1 &&
        EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher_key, iv) == 1)
        result = place == 0 ? 1 : 2;
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}

// Contexts

pando_tls_context *pando_tls_server_context(pando_tls_tickets *tickets) {
    if (!CRYPTO_THREAD_run_once(&indexes_once, make_indexes)) return NULL;
    SSL_CTX *context = new_context(TLS_server_method());
    if (!context) return NULL;
    SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
    SSL_CTX_set_tlsext_servername_callback(context, choose_context);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, ticket_callback);
    SSL_CTX_set_ex_data(context, tickets_index, tickets);
    SSL_CTX_set_timeout(context, TICKET_LIFETIME_S);
    // A client uses a ticket once (RFC 8446 §C.4), and gets a new one with each connection.
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"pando", 5);
    return (pando_tls_context *)context;
}

void pando_tls_context_set_ticket_count(pando_tls_context *context, size_t count) {
    SSL_CTX_set_num_tickets(AS_SSL_CTX(context), count);
}

pando_tls_context *pando_tls_client_context(void) {
    SSL_CTX *context = new_context(TLS_client_method());
    if (!context) return NULL;
    SSL_CTX_set_alpn_protos(context, PROTOCOL, sizeof PROTOCOL - 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return (pando_tls_context *)context;
}

void pando_tls_context_free(pando_tls_context *context) { SSL_CTX_free(AS_SSL_CTX(context)); }

/// Encrypted keys are refused: a server has no terminal on which to ask for the password.
static int no_password(char *buffer, int capacity, int is_writing, void *context) {
    (void)buffer, (void)capacity, (void)is_writing, (void)context;
    return -1;
}

int32_t pando_tls_context_use(
    pando_tls_context *opaque, const void *chain, size_t chain_count, const void *key, size_t key_count, char *error
) {
    SSL_CTX *context = AS_SSL_CTX(opaque);
    int32_t result = -1;
    ERR_clear_error();
    BIO *chain_bytes = BIO_new_mem_buf(chain, (int)chain_count), *key_bytes = BIO_new_mem_buf(key, (int)key_count);
    X509 *certificate = NULL;
    EVP_PKEY *private_key = NULL;
    if (!chain_bytes || !key_bytes) goto done;
    // PEM_read_bio_X509_AUX and not _X509: it also takes "TRUSTED CERTIFICATE".
    certificate = PEM_read_bio_X509_AUX(chain_bytes, NULL, no_password, NULL);
    if (!certificate) {
        ERR_clear_error();
        pando_tls_explain(error, "holds no certificate in PEM");
        goto done;
    }
    if (SSL_CTX_use_certificate(context, certificate) != 1) goto explain;
    SSL_CTX_clear_chain_certs(context);
    for (int count = 0;; count++) {
        X509 *issuer = PEM_read_bio_X509(chain_bytes, NULL, no_password, NULL);
        if (!issuer) break;
        if (count >= CERTIFICATE_LIMIT || SSL_CTX_add0_chain_cert(context, issuer) != 1) {
            X509_free(issuer);
            goto explain;
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) goto explain;
    ERR_clear_error();
    private_key = PEM_read_bio_PrivateKey(key_bytes, NULL, no_password, NULL);
    if (!private_key) {
        int is_encrypted = ERR_GET_REASON(ERR_peek_error()) == PEM_R_BAD_PASSWORD_READ ||
                           ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_BAD_PASSWORD_READ;
        ERR_clear_error();
        pando_tls_explain(
            error, is_encrypted ? "the private key is encrypted; store it without a password"
                                : "the key file holds no private key in PEM");
        goto done;
    }
    if (SSL_CTX_use_PrivateKey(context, private_key) != 1 || SSL_CTX_check_private_key(context) != 1) {
        ERR_clear_error();
        pando_tls_explain(error, "the private key does not belong to the certificate");
        goto done;
    }
    result = 0;
    goto done;
explain:
    pando_tls_explain(error, "the certificate cannot be used");
done:
    ERR_clear_error();
    X509_free(certificate);
    EVP_PKEY_free(private_key);
    BIO_free(chain_bytes);
    BIO_free(key_bytes);
    return result;
}

/// Adds all certificates of a PEM text to the store, and their names to `names`: how many, or -1.
static int add_issuers(SSL_CTX *context, const void *bytes, size_t count, STACK_OF(X509_NAME) *names) {
    BIO *input = BIO_new_mem_buf(bytes, (int)count);
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    int added = 0;
    if (!input) return -1;
    for (X509 *issuer; added >= 0 && added < CERTIFICATE_LIMIT && (issuer = PEM_read_bio_X509(input, NULL, no_password, NULL));) {
        X509_NAME *name = names ? X509_NAME_dup(X509_get_subject_name(issuer)) : NULL;
        int is_added = X509_STORE_add_cert(store, issuer) == 1 && (!names || (name && sk_X509_NAME_push(names, name) > 0));
        if (!is_added) X509_NAME_free(name);
        added = is_added ? added + 1 : -1;
        X509_free(issuer);
    }
    if (added >= 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) added = -1;
    if (added >= 0) ERR_clear_error();
    BIO_free(input);
    return added;
}

/// A client that shows a certificate gets no session ticket: with one it would keep its rights when its certificate, or one
/// of its issuers', has ended (RFC 8446 §4.6.1). libssl calls this with each certificate that it verifies.
static int note_client_certificate(int is_valid, X509_STORE_CTX *verification) {
    SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (!ssl || SSL_set_num_tickets(ssl, 0) != 1) return 0;
    return is_valid;
}

int32_t pando_tls_context_ask_clients(pando_tls_context *opaque, const void *issuers, size_t count, char *error) {
    SSL_CTX *context = AS_SSL_CTX(opaque);
    ERR_clear_error();
    STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
    if (!names || add_issuers(context, issuers, count, names) <= 0) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        pando_tls_explain(error, "holds no certificate in PEM");
        return -1;
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, note_client_certificate);
    SSL_CTX_set_verify_depth(context, CLIENT_CHAIN_DEPTH);
    SSL_CTX_set_max_cert_list(context, CLIENT_CHAIN_BYTE_LIMIT);
    // A client with a ticket is not asked for a certificate. With other issuers, it may have one.
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(issuers, count, digest);
    SSL_CTX_set_session_id_context(context, digest, sizeof digest);
    ERR_clear_error();
    return 0;
}

int32_t pando_tls_context_trust(pando_tls_context *opaque, const void *issuers, size_t count, char *error) {
    ERR_clear_error();
    if (add_issuers(AS_SSL_CTX(opaque), issuers, count, NULL) <= 0) {
        pando_tls_explain(error, "holds no certificate in PEM");
        return -1;
    }
    ERR_clear_error();
    return 0;
}

int32_t pando_tls_context_trust_system(pando_tls_context *opaque) {
    int result = SSL_CTX_set_default_verify_paths(AS_SSL_CTX(opaque)) == 1 ? 0 : -1;
    ERR_clear_error();
    return result;
}

void pando_tls_context_names(
    pando_tls_context *opaque, int32_t limit, size_t byte_limit, void (*body)(void *list, const char *name, size_t count),
    void *list
) {
    X509 *certificate = SSL_CTX_get0_certificate(AS_SSL_CTX(opaque));
    if (!certificate) return;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    if (names) {
        for (int i = 0; i < sk_GENERAL_NAME_num(names) && i < limit; i++) {
            const GENERAL_NAME *found = sk_GENERAL_NAME_value(names, i);
            if (found->type != GEN_DNS) continue;
            int count = ASN1_STRING_length(found->d.dNSName);
            if (count > 0 && (size_t)count <= byte_limit)
                body(list, (const char *)ASN1_STRING_get0_data(found->d.dNSName), (size_t)count);
        }
        GENERAL_NAMES_free(names);
    } else {
        char name[256];
        int count = X509_NAME_get_text_by_NID(
            X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
        if (count > 0 && (size_t)count <= byte_limit) body(list, name, (size_t)count);
    }
    ERR_clear_error();
}

int32_t pando_tls_context_rsa_bits(pando_tls_context *opaque) {
    EVP_PKEY *key = SSL_CTX_get0_privatekey(AS_SSL_CTX(opaque));
    return key && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA ? EVP_PKEY_get_bits(key) : 0;
}

/// Seconds since 1970, or `unknown`.
static int64_t seconds_of(const ASN1_TIME *time, int64_t unknown) {
    int days = 0, seconds = 0;
    ASN1_TIME *start = ASN1_TIME_set(NULL, 0);
    int64_t result = unknown;
    if (time && start && ASN1_TIME_diff(&days, &seconds, start, time) == 1) result = (int64_t)days * 86400 + seconds;
    ASN1_TIME_free(start);
    ERR_clear_error();
    return result;
}

int64_t pando_tls_context_begin(pando_tls_context *opaque) {
    X509 *certificate = SSL_CTX_get0_certificate(AS_SSL_CTX(opaque));
    return seconds_of(certificate ? X509_get0_notBefore(certificate) : NULL, INT64_MIN);
}

int64_t pando_tls_context_expiry(pando_tls_context *opaque) {
    X509 *certificate = SSL_CTX_get0_certificate(AS_SSL_CTX(opaque));
    return seconds_of(certificate ? X509_get0_notAfter(certificate) : NULL, INT64_MAX);
}

int32_t pando_tls_context_limit(
    pando_tls_context *opaque, int32_t lowest, int32_t highest, const char *ciphers12, const char *ciphers13
) {
    SSL_CTX *context = AS_SSL_CTX(opaque);
    int is_set = SSL_CTX_set_min_proto_version(context, lowest) == 1 && SSL_CTX_set_max_proto_version(context, highest) == 1 &&
                 (!ciphers12 || SSL_CTX_set_cipher_list(context, ciphers12) == 1) &&
                 (!ciphers13 || SSL_CTX_set_ciphersuites(context, ciphers13) == 1);
    ERR_clear_error();
    return is_set ? 0 : -1;
}
