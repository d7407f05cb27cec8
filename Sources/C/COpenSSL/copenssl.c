// The low-level SHA-1 functions are deprecated in favour of EVP, whose fetch costs more than hashing a short
// value; a tree of a million nodes hashes a million short values.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "copenssl.h"
#include <openssl/sha.h>

_Static_assert(sizeof(pando_sha1) >= sizeof(SHA_CTX), "pando_sha1 holds OpenSSL's context");
_Static_assert(_Alignof(pando_sha1) >= _Alignof(SHA_CTX), "pando_sha1 is aligned as OpenSSL's context");

void pando_sha1_begin(pando_sha1 *context) { SHA1_Init((SHA_CTX *)context); }

void pando_sha1_update(pando_sha1 *context, const void *bytes, size_t count) {
    SHA1_Update((SHA_CTX *)context, bytes, count);
}

void pando_sha1_finish(pando_sha1 *context, uint8_t digest[PANDO_SHA1_BYTE_COUNT]) {
    SHA1_Final(digest, (SHA_CTX *)context);
}

void pando_sha256(const void *bytes, size_t count, uint8_t digest[PANDO_SHA256_BYTE_COUNT]) {
    SHA256(bytes, count, digest);
}
