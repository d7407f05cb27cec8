// Handshakes through libssl, with bytes in memory, and the keys that they agree on.
#include "common.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/x509v3.h>
#include <string.h>

// Watching libssl

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

/// libssl hands out the traffic secrets of TLS 1.3 in no other way: a line "LABEL client_random secret" in hex,
/// the format of SSLKEYLOGFILE. The line is not stored.
static void note_secret(const SSL *ssl, const char *line) {
    static const char *const labels[2] = {"CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "};
    pando_tls_handshake *handshake = SSL_get_app_data(ssl);
    for (int side = 0; handshake && side < 2; side++) {
        if (strncmp(line, labels[side], strlen(labels[side])) != 0) continue;
        const char *digits = strrchr(line, ' ') + 1;
        size_t count = strlen(digits) / 2;
        if (count > sizeof handshake->secrets[side]) return;
        for (size_t i = 0; i < count; i++) {
            int high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
            if (high < 0 || low < 0) return;
            handshake->secrets[side][i] = (uint8_t)(high << 4 | low);
        }
        handshake->secret_counts[side] = count;
    }
}

/// Counts the records that libssl writes after our Finished: tickets.
static void note_message(
    int is_written, int version, int type, const void *bytes, size_t count, SSL *ssl, void *unused
) {
    (void)version, (void)unused;
    pando_tls_handshake *handshake = SSL_get_app_data(ssl);
    if (!is_written || !handshake) return;
    if (type == SSL3_RT_HEADER) {
        if (handshake->has_finished) handshake->final_record_count++;
    } else if (type == SSL3_RT_HANDSHAKE && count > 0) {
        uint8_t message = *(const uint8_t *)bytes;
        if (message != SSL3_MT_FINISHED) return;
        handshake->has_finished = 1;
        handshake->final_record_count = 0;
    }
}

void pando_tls_observe(SSL_CTX *context) {
    SSL_CTX_set_keylog_callback(context, note_secret);
    SSL_CTX_set_msg_callback(context, note_message);
}

// The handshake

static pando_tls_handshake *new_handshake(pando_tls_context *context) {
    pando_tls_handshake *handshake = OPENSSL_zalloc(sizeof *handshake);
    SSL *ssl = SSL_new(AS_SSL_CTX(context));
    BIO *input = BIO_new(BIO_s_mem()), *output = BIO_new(BIO_s_mem());
    ERR_clear_error();
    if (!handshake || !ssl || !input || !output) {
        OPENSSL_free(handshake);
        SSL_free(ssl);
        BIO_free(input);
        BIO_free(output);
        return NULL;
    }
    // An empty input is not its end.
    BIO_set_mem_eof_return(input, -1);
    BIO_set_mem_eof_return(output, -1);
    SSL_set_bio(ssl, input, output);
    SSL_set_app_data(ssl, handshake);
    handshake->ssl = ssl;
    handshake->input = input;
    handshake->output = output;
    return handshake;
}

pando_tls_handshake *pando_tls_server_handshake(
    pando_tls_context *context, pando_tls_choose choose, const void *chooser
) {
    pando_tls_handshake *handshake = new_handshake(context);
    if (!handshake) return NULL;
    handshake->is_server = 1;
    handshake->choose = choose;
    handshake->chooser = chooser;
    SSL_set_accept_state(handshake->ssl);
    return handshake;
}

pando_tls_handshake *pando_tls_client_handshake(pando_tls_context *context, const char *host) {
    pando_tls_handshake *handshake = new_handshake(context);
    if (!handshake) return NULL;
    SSL_set_connect_state(handshake->ssl);
    if (host) {
        X509_VERIFY_PARAM *checks = SSL_get0_param(handshake->ssl);
        X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        // No IP addresses in SNI (RFC 6066 §3).
        if (X509_VERIFY_PARAM_set1_ip_asc(checks, host) != 1 &&
            (X509_VERIFY_PARAM_set1_host(checks, host, 0) != 1 ||
             SSL_set_tlsext_host_name(handshake->ssl, host) != 1)) {
            pando_tls_handshake_free(handshake);
            handshake = NULL;
        }
        ERR_clear_error();
    }
    return handshake;
}

void pando_tls_handshake_free(pando_tls_handshake *handshake) {
    if (!handshake) return;
    if (handshake->ssl) {
        SSL_set_app_data(handshake->ssl, NULL);
        SSL_free(handshake->ssl);
    }
    OPENSSL_clear_free(handshake, sizeof *handshake);
}

pando_tls_progress pando_tls_handshake_advance(
    pando_tls_handshake *handshake, const void *bytes, size_t count, char *error
) {
    ERR_clear_error();
    if (count > 0 && (count > INT32_MAX || BIO_write(handshake->input, bytes, (int)count) != (int)count)) {
        pando_tls_explain(error, "no memory");
        return PANDO_TLS_HAS_FAILED;
    }
    int result = SSL_do_handshake(handshake->ssl);
    if (result == 1) {
        // Records behind the handshake are not libssl's: it must have got none.
        if (BIO_pending(handshake->input) == 0 && !SSL_has_pending(handshake->ssl)) return PANDO_TLS_IS_DONE;
        pando_tls_explain(error, "data in the record of the last handshake message");
        return PANDO_TLS_HAS_FAILED;
    }
    if (SSL_get_error(handshake->ssl, result) == SSL_ERROR_WANT_READ) return PANDO_TLS_WANTS_INPUT;
    long verification = SSL_get_verify_result(handshake->ssl);
    pando_tls_explain(error, "the handshake failed");
    if (error && verification != X509_V_OK) {
        size_t used = strlen(error);
        const char *reason = X509_verify_cert_error_string(verification);
        BIO_snprintf(error + used, (size_t)PANDO_TLS_ERROR_BYTE_COUNT - used, " (%s)", reason);
    }
    return PANDO_TLS_HAS_FAILED;
}

int32_t pando_tls_handshake_has_answered(pando_tls_handshake *handshake) {
    return handshake->is_server && handshake->has_finished;
}

int32_t pando_tls_handshake_is_13(pando_tls_handshake *handshake) {
    return SSL_version(handshake->ssl) == TLS1_3_VERSION;
}

size_t pando_tls_handshake_output_count(pando_tls_handshake *handshake) {
    return BIO_ctrl_pending(handshake->output);
}

size_t pando_tls_handshake_take(pando_tls_handshake *handshake, void *bytes, size_t capacity) {
    int count = BIO_read(handshake->output, bytes, capacity > INT32_MAX ? INT32_MAX : (int)capacity);
    return count > 0 ? (size_t)count : 0;
}

// Keys

/// The key block of TLS 1.2 (RFC 5246 §6.3) for ciphers without a MAC key: key, key, IV, IV; the client's first.
static int derive_12(pando_tls_handshake *handshake, pando_record_keys *reading, pando_record_keys *writing) {
    uint8_t master[64], seed[2 * SSL3_RANDOM_SIZE], block[2 * (32 + 12)];
    size_t keys = pando_tls_key_count(reading->kind), ivs = reading->kind == PANDO_CHACHA20_POLY1305 ? 12 : 4;
    size_t master_count = SSL_SESSION_get_master_key(SSL_get0_session(handshake->ssl), master, sizeof master);
    if (SSL_get_server_random(handshake->ssl, seed, SSL3_RANDOM_SIZE) != SSL3_RANDOM_SIZE ||
        SSL_get_client_random(handshake->ssl, seed + SSL3_RANDOM_SIZE, SSL3_RANDOM_SIZE) != SSL3_RANDOM_SIZE)
        return 0;
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS1-PRF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(
            OSSL_KDF_PARAM_DIGEST, (char *)(reading->uses_sha384 ? "SHA384" : "SHA256"), 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SECRET, master, master_count),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, (char *)"key expansion", 13),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, seed, sizeof seed),
        OSSL_PARAM_construct_end(),
    };
    int is_made = context && EVP_KDF_derive(context, block, 2 * (keys + ivs), parameters) == 1;
    if (is_made) {
        pando_record_keys *client = handshake->is_server ? reading : writing;
        pando_record_keys *server = handshake->is_server ? writing : reading;
        memcpy(client->iv, block + 2 * keys, ivs);
        memcpy(server->iv, block + 2 * keys + ivs, ivs);
        is_made = pando_record_keys_set(client, block) && pando_record_keys_set(server, block + keys);
        // Each side's Finished was its record number 0.
        client->sequence = server->sequence = 1;
    }
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    OPENSSL_cleanse(master, sizeof master);
    OPENSSL_cleanse(block, sizeof block);
    return is_made;
}

static int derive_13(pando_tls_handshake *handshake, pando_record_keys *reading, pando_record_keys *writing) {
    size_t count = reading->uses_sha384 ? 48 : 32;
    int own = handshake->is_server ? 1 : 0;
    if (handshake->secret_counts[0] != count || handshake->secret_counts[1] != count) return 0;
    memcpy(reading->secret, handshake->secrets[1 - own], count);
    memcpy(writing->secret, handshake->secrets[own], count);
    if (!pando_record_keys_derive(reading) || !pando_record_keys_derive(writing)) return 0;
    writing->sequence = handshake->final_record_count;
    return 1;
}

static int cipher_of(const SSL_CIPHER *cipher, pando_tls_cipher *found) {
    switch (SSL_CIPHER_get_cipher_nid(cipher)) {
        case NID_aes_128_gcm: *found = PANDO_AES_128_GCM; return 1;
        case NID_aes_256_gcm: *found = PANDO_AES_256_GCM; return 1;
        case NID_chacha20_poly1305: *found = PANDO_CHACHA20_POLY1305; return 1;
        default: return 0;
    }
}

int32_t pando_tls_handshake_result(
    pando_tls_handshake *handshake, pando_tls_facts *facts, pando_record_keys **reading, pando_record_keys **writing
) {
    SSL *ssl = handshake->ssl;
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    const unsigned char *protocol = NULL;
    unsigned int protocol_count = 0;
    memset(facts, 0, sizeof *facts);
    if (!cipher || !cipher_of(cipher, &facts->cipher)) return -1;
    facts->version = (uint16_t)SSL_version(ssl);
    facts->is_resumed = SSL_session_reused(ssl) == 1;
    SSL_get0_alpn_selected(ssl, &protocol, &protocol_count);
    facts->has_protocol = protocol_count > 0;
    if (handshake->is_server) {
        X509 *certificate = SSL_get0_peer_certificate(ssl);
        // No ticket carries one: see `note_client_certificate`.
        facts->has_client_certificate =
            certificate && !facts->is_resumed && SSL_get_verify_result(ssl) == X509_V_OK;
    }
    const EVP_MD *digest = SSL_CIPHER_get_handshake_digest(cipher);
    int is_13 = facts->version == TLS1_3_VERSION, uses_sha384 = digest && EVP_MD_get_type(digest) == NID_sha384;
    *reading = pando_record_keys_new(facts->cipher, is_13, uses_sha384, 0);
    *writing = pando_record_keys_new(facts->cipher, is_13, uses_sha384, 1);
    int is_made = *reading && *writing && (is_13 || facts->version == TLS1_2_VERSION) &&
                  (is_13 ? derive_13(handshake, *reading, *writing) : derive_12(handshake, *reading, *writing));
    ERR_clear_error();
    if (is_made) return 0;
    pando_record_keys_free(*reading);
    pando_record_keys_free(*writing);
    *reading = *writing = NULL;
    return -1;
}
