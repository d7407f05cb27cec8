// The functions of libcrypto that Pando calls. OpenSSL's own headers are included only in copenssl.c.
#ifndef PANDO_COPENSSL_H
#define PANDO_COPENSSL_H

#include <stddef.h>
#include <stdint.h>

#define PANDO_SHA1_BYTE_COUNT 20

/// An incremental SHA-1: storage for OpenSSL's context, so that hashing allocates nothing.
typedef struct { uint64_t storage[16]; } pando_sha1;

void pando_sha1_begin(pando_sha1 *context);
void pando_sha1_update(pando_sha1 *context, const void *bytes, size_t count);
void pando_sha1_finish(pando_sha1 *context, uint8_t digest[PANDO_SHA1_BYTE_COUNT]);

#define PANDO_SHA256_BYTE_COUNT 32

/// The SHA-256 of `count` bytes.
void pando_sha256(const void *bytes, size_t count, uint8_t digest[PANDO_SHA256_BYTE_COUNT]);

#endif
