// Records under the keys of a handshake (RFC 8446 §5.2, RFC 5246 §6.2.3.3 with RFC 5288 and RFC 7905).
//
//     TLS 1.3        │ 23 │ 0x0303 │ length │ encrypted: data, type      │ tag │   nonce: IV xor number of the record
//     TLS 1.2 GCM    │ type │ 0x0303 │ length │ number │ encrypted: data │ tag │   nonce: IV, then the number
//     TLS 1.2 ChaCha │ type │ 0x0303 │ length │ encrypted: data          │ tag │   nonce: as in TLS 1.3
//     bytes             1       2        2        8                        16
//
// TLS 1.3 authenticates the header; TLS 1.2 the number, the type, the version and the length of the data.
#include "common.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

enum { HEADER = 5, TAG = 16, BLOCK = 16, NONCE = 12, EXPLICIT_NONCE = 8, DATA_LIMIT = 16384, APPLICATION_DATA = 23 };

static EVP_CIPHER *ciphers[3];
static CRYPTO_ONCE ciphers_once = CRYPTO_ONCE_STATIC_INIT;
/// Fetched once: a fetch for each connection would search the providers under a lock.
static void fetch_ciphers(void) {
    ciphers[PANDO_AES_128_GCM] = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
    ciphers[PANDO_AES_256_GCM] = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    ciphers[PANDO_CHACHA20_POLY1305] = EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL);
}

// Keys

size_t pando_tls_key_count(pando_tls_cipher cipher) { return cipher == PANDO_AES_128_GCM ? 16 : 32; }

pando_record_keys *pando_record_keys_new(pando_tls_cipher cipher, int is_13, int uses_sha384, int is_sealing) {
    if (!CRYPTO_THREAD_run_once(&ciphers_once, fetch_ciphers) || !ciphers[cipher]) return NULL;
    pando_record_keys *keys = OPENSSL_zalloc(sizeof *keys);
    if (!keys) return NULL;
    keys->kind = (uint8_t)cipher;
    keys->is_13 = is_13 != 0;
    keys->uses_sha384 = uses_sha384 != 0;
    keys->cipher = EVP_CIPHER_CTX_new();
    if (keys->cipher && EVP_CipherInit_ex(keys->cipher, ciphers[cipher], NULL, NULL, NULL, is_sealing) == 1) return keys;
    pando_record_keys_free(keys);
    ERR_clear_error();
    return NULL;
}

void pando_record_keys_free(pando_record_keys *keys) {
    if (!keys) return;
    EVP_CIPHER_CTX_free(keys->cipher);
    OPENSSL_clear_free(keys, sizeof *keys);
}

int pando_record_keys_set(pando_record_keys *keys, const uint8_t *key) {
    return EVP_CipherInit_ex(keys->cipher, NULL, NULL, key, NULL, -1) == 1;
}

/// HKDF-Expand-Label (RFC 8446 §7.1) with an empty context, for at most one block of the digest.
///
/// - `label`: at most 21 bytes: `info` has 9 before it and 2 behind it.
static int expand(const pando_record_keys *keys, const char *label, uint8_t *output, size_t count) {
    const EVP_MD *digest = keys->uses_sha384 ? EVP_sha384() : EVP_sha256();
    uint8_t info[32], block[EVP_MAX_MD_SIZE];
    size_t label_count = strlen(label), used = 0;
    unsigned int block_count = 0;
    info[used++] = (uint8_t)(count >> 8);
    info[used++] = (uint8_t)count;
    info[used++] = (uint8_t)(6 + label_count);
    memcpy(info + used, "tls13 ", 6);
    memcpy(info + used + 6, label, label_count);
    used += 6 + label_count;
    info[used++] = 0;
    info[used++] = 1;  // The number of the block (RFC 5869 §2.3).
    int secret_count = EVP_MD_get_size(digest);
    int is_made = HMAC(digest, keys->secret, secret_count, info, used, block, &block_count) && count <= block_count;
    if (is_made) memcpy(output, block, count);
    OPENSSL_cleanse(block, sizeof block);
    return is_made;
}

int pando_record_keys_derive(pando_record_keys *keys) {
    uint8_t key[32];
    int is_made = expand(keys, "key", key, pando_tls_key_count(keys->kind)) &&
                  expand(keys, "iv", keys->iv, sizeof keys->iv) && pando_record_keys_set(keys, key);
    keys->sequence = keys->block_count = 0;
    OPENSSL_cleanse(key, sizeof key);
    return is_made;
}

int32_t pando_record_keys_update(pando_record_keys *keys) {
    uint8_t next[sizeof keys->secret] = {0};
    int is_made = keys->is_13 && expand(keys, "traffic upd", next, keys->uses_sha384 ? 48 : 32);
    if (is_made) memcpy(keys->secret, next, sizeof next);
    is_made = is_made && pando_record_keys_derive(keys);
    OPENSSL_cleanse(next, sizeof next);
    ERR_clear_error();
    return is_made ? 0 : -1;
}

uint64_t pando_record_sequence(const pando_record_keys *keys) { return keys->sequence; }

uint64_t pando_record_block_count(const pando_record_keys *keys) { return keys->block_count; }

// Records

/// A record has used the keys: a block for each 16 bytes, and one for the tag.
static void count_record(pando_record_keys *keys, size_t byte_count) {
    keys->sequence++;
    keys->block_count += (byte_count + BLOCK - 1) / BLOCK + 1;
}

static int has_explicit_nonce(const pando_record_keys *keys) {
    return !keys->is_13 && keys->kind != PANDO_CHACHA20_POLY1305;
}

size_t pando_record_prefix_byte_count(const pando_record_keys *keys) {
    return has_explicit_nonce(keys) ? EXPLICIT_NONCE : 0;
}

static void put_number(uint64_t number, uint8_t bytes[8]) {
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (56 - 8 * i));
}

/// The nonce, but for the explicit one of a record that was received.
static void make_nonce(const pando_record_keys *keys, uint8_t nonce[NONCE]) {
    uint8_t number[8];
    put_number(keys->sequence, number);
    memcpy(nonce, keys->iv, NONCE);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = has_explicit_nonce(keys) ? number[i] : (uint8_t)(nonce[4 + i] ^ number[i]);
}

/// What is authenticated beside the data: how many bytes of `bytes`.
static size_t make_associated(
    const pando_record_keys *keys, const uint8_t header[HEADER], size_t data_count, uint8_t bytes[8 + HEADER]
) {
    if (keys->is_13) {
        memcpy(bytes, header, HEADER);
        return HEADER;
    }
    put_number(keys->sequence, bytes);
    memcpy(bytes + 8, header, 3);
    bytes[11] = (uint8_t)(data_count >> 8);
    bytes[12] = (uint8_t)data_count;
    return 8 + HEADER;
}

int64_t pando_record_seal(pando_record_keys *keys, uint8_t type, const void *data, size_t count, uint8_t *record) {
    if (count > DATA_LIMIT || keys->sequence == UINT64_MAX) return -1;
    size_t prefix = pando_record_prefix_byte_count(keys), inner = keys->is_13 ? 1 : 0;
    size_t length = prefix + count + inner + TAG;
    uint8_t nonce[NONCE], associated[8 + HEADER];
    record[0] = keys->is_13 ? APPLICATION_DATA : type;
    record[1] = 3;
    record[2] = 3;
    record[3] = (uint8_t)(length >> 8);
    record[4] = (uint8_t)length;
    make_nonce(keys, nonce);
    size_t associated_count = make_associated(keys, record, count, associated);
    if (prefix) memcpy(record + HEADER, nonce + NONCE - EXPLICIT_NONCE, EXPLICIT_NONCE);
    EVP_CIPHER_CTX *cipher = keys->cipher;
    uint8_t *output = record + HEADER + prefix, *tag = output + count + inner;
    int used = 0;
    if (EVP_EncryptInit_ex(cipher, NULL, NULL, NULL, nonce) == 1 &&
        EVP_EncryptUpdate(cipher, NULL, &used, associated, (int)associated_count) == 1 &&
        (count == 0 || EVP_EncryptUpdate(cipher, output, &used, data, (int)count) == 1) &&
        (!inner || EVP_EncryptUpdate(cipher, output + count, &used, &type, 1) == 1) &&
        EVP_EncryptFinal_ex(cipher, tag, &used) == 1 &&
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1) {
        count_record(keys, count + inner);
        return (int64_t)(HEADER + length);
    }
    ERR_clear_error();
    return -1;
}

int32_t pando_record_open(
    pando_record_keys *keys, uint8_t *record, size_t count, uint8_t *type, size_t *data_offset, size_t *data_count
) {
    size_t prefix = pando_record_prefix_byte_count(keys);
    if (count < HEADER + prefix + TAG || keys->sequence == UINT64_MAX) return PANDO_RECORD_BAD_MAC;
    size_t plain = count - HEADER - prefix - TAG;
    if (plain > DATA_LIMIT + (keys->is_13 ? 256 : 0)) return PANDO_RECORD_TOO_LONG;
    uint8_t nonce[NONCE], associated[8 + HEADER], *data = record + HEADER + prefix;
    make_nonce(keys, nonce);
    if (prefix) memcpy(nonce + NONCE - EXPLICIT_NONCE, record + HEADER, EXPLICIT_NONCE);
    size_t associated_count = make_associated(keys, record, plain, associated);
    EVP_CIPHER_CTX *cipher = keys->cipher;
    int used = 0;
    if (EVP_DecryptInit_ex(cipher, NULL, NULL, NULL, nonce) != 1 ||
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, TAG, data + plain) != 1 ||
        EVP_DecryptUpdate(cipher, NULL, &used, associated, (int)associated_count) != 1 ||
        (plain > 0 && EVP_DecryptUpdate(cipher, data, &used, data, (int)plain) != 1) ||
        EVP_DecryptFinal_ex(cipher, data + plain, &used) != 1) {
        ERR_clear_error();
        return PANDO_RECORD_BAD_MAC;
    }
    count_record(keys, plain);
    *type = record[0];
    if (keys->is_13) {
        // The type is the last byte that is not padding (RFC 8446 §5.4).
        while (plain > 0 && data[plain - 1] == 0) plain--;
        if (plain == 0) return PANDO_RECORD_WITHOUT_TYPE;
        *type = data[--plain];
        if (plain > DATA_LIMIT) return PANDO_RECORD_TOO_LONG;
    }
    *data_offset = HEADER + prefix;
    *data_count = plain;
    return 0;
}
