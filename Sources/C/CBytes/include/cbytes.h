#ifndef PANDO_CBYTES_H
#define PANDO_CBYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Tests 32 or 16 bytes at once. Swift's vector types would do it byte by byte.
//
//     bytes   / r o o m s / 7 " …      bytes at `p`, all of which must be readable
//     mask    1 0 0 0 0 0 1 0 1 …      one bit a byte, the first byte lowest

typedef uint8_t pando_sixteen __attribute__((vector_size(16)));
typedef int8_t pando_signed_sixteen __attribute__((vector_size(16)));

static inline pando_sixteen pando_load_sixteen(const uint8_t *p) {
    pando_sixteen bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

/// The highest bit of each byte.
static inline uint32_t pando_highest_bits_portable(pando_sixteen bytes) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; i++) mask |= (uint32_t)(bytes[i] >> 7) << i;
    return mask;
}

static inline uint32_t pando_highest_bits(pando_sixteen bytes) {
#if defined(__SSE2__)
    return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
#elif defined(__aarch64__)
    // Each byte keeps the bit of its index, and the eight bytes of each half are added.
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t kept = vandq_u8((uint8x16_t)vshrq_n_s8((int8x16_t)bytes, 7), vld1q_u8(places));
    return (uint32_t)vaddv_u8(vget_low_u8(kept)) | (uint32_t)vaddv_u8(vget_high_u8(kept)) << 8;
#else
    return pando_highest_bits_portable(bytes);
#endif
}

/// All bits set for bytes that are escaped in a JSON string (RFC 8259 §7): control characters, `"` and `\`.
static inline pando_sixteen pando_json_special(pando_sixteen b) {
    return (pando_sixteen)((b < 0x20) | (b == '"') | (b == '\\'));
}

/// All bits set for bytes that end a plain segment of a path in a JSON string: those of `pando_json_special`, bytes that
/// are not ASCII, `/`, and the other characters that no key may have (realtime §8.6).
static inline pando_sixteen pando_path_special(pando_sixteen b) {
    // Unsigned: a difference below zero is a large number.
    return (pando_sixteen)(((b - 0x20) >= 0x7F - 0x20) | ((b - '"') <= '$' - '"') | ((b | 1) == '/') |
                           ((b - '[') <= ']' - '['));
}

static inline uint32_t pando_json_mask(const uint8_t *p) {
    return pando_highest_bits(pando_json_special(pando_load_sixteen(p))) |
           pando_highest_bits(pando_json_special(pando_load_sixteen(p + 16))) << 16;
}

/// Of 16 bytes only: keys are short.
static inline uint32_t pando_path_mask(const uint8_t *p) {
    return pando_highest_bits(pando_path_special(pando_load_sixteen(p)));
}

/// All bits set for bytes that are escaped in a JSON string or are not ASCII.
static inline pando_sixteen pando_json_or_non_ascii(pando_sixteen b) {
    // As signed numbers, those that are not ASCII are below zero.
    return (pando_sixteen)(((pando_signed_sixteen)b < 0x20) | (b == '"') | (b == '\\'));
}

static inline uint32_t pando_json_or_non_ascii_mask(const uint8_t *p) {
    return pando_highest_bits(pando_json_or_non_ascii(pando_load_sixteen(p))) |
           pando_highest_bits(pando_json_or_non_ascii(pando_load_sixteen(p + 16))) << 16;
}

/// The same without the processor's instruction, for tests.
static inline uint32_t pando_json_or_non_ascii_mask_portable(const uint8_t *p) {
    return pando_highest_bits_portable(pando_json_or_non_ascii(pando_load_sixteen(p))) |
           pando_highest_bits_portable(pando_json_or_non_ascii(pando_load_sixteen(p + 16))) << 16;
}

#endif
