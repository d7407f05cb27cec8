#ifndef PANDO_CBYTES_H
#define PANDO_CBYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Thirty-two bytes at a look, or sixteen, which Swift's vector types do byte by byte.
//
//     bytes   / r o o m s / 7 " …      bytes at `p`, all of which must be readable
//     marks   1 0 0 0 0 0 1 0 1 …      one bit a byte, the first byte lowest

typedef uint8_t pando_sixteen __attribute__((vector_size(16)));

static inline pando_sixteen pando_load_sixteen(const uint8_t *p) {
    pando_sixteen bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

/// The highest bit of each byte.
static inline uint32_t pando_highest_bits_portable(pando_sixteen bytes) {
    uint32_t marks = 0;
    for (int i = 0; i < 16; i++) marks |= (uint32_t)(bytes[i] >> 7) << i;
    return marks;
}

static inline uint32_t pando_highest_bits(pando_sixteen bytes) {
#if defined(__SSE2__)
    return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
#elif defined(__aarch64__)
    // Each byte keeps the bit of its place, and each half is added up.
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t kept = vandq_u8((uint8x16_t)vshrq_n_s8((int8x16_t)bytes, 7), vld1q_u8(places));
    return (uint32_t)vaddv_u8(vget_low_u8(kept)) | (uint32_t)vaddv_u8(vget_high_u8(kept)) << 8;
#else
    return pando_highest_bits_portable(bytes);
#endif
}

/// Bytes that do not stand for themselves in a JSON string (RFC 8259 §7): controls, `"` and `\`.
static inline pando_sixteen pando_json_care(pando_sixteen b) {
    return (pando_sixteen)((b < 0x20) | (b == '"') | (b == '\\'));
}

/// Bytes that do not stand for themselves in a path in a JSON string: those, everything but ASCII, `/`, and what no key may
/// have (realtime §8.6).
static inline pando_sixteen pando_path_care(pando_sixteen b) {
    // A difference below zero is a large number.
    return (pando_sixteen)(((b - 0x20) >= 0x7F - 0x20) | ((b - '"') <= '$' - '"') | ((b | 1) == '/') |
                           ((b - '[') <= ']' - '['));
}

static inline uint32_t pando_json_marks(const uint8_t *p) {
    return pando_highest_bits(pando_json_care(pando_load_sixteen(p))) |
           pando_highest_bits(pando_json_care(pando_load_sixteen(p + 16))) << 16;
}

/// Of sixteen bytes only: keys are short.
static inline uint32_t pando_path_marks(const uint8_t *p) {
    return pando_highest_bits(pando_path_care(pando_load_sixteen(p)));
}

/// Bytes that are not ASCII.
static inline uint32_t pando_non_ascii_marks(const uint8_t *p) {
    return pando_highest_bits(pando_load_sixteen(p)) | pando_highest_bits(pando_load_sixteen(p + 16)) << 16;
}

/// The same without the processor's own way to gather bits, for tests.
static inline uint32_t pando_non_ascii_marks_portable(const uint8_t *p) {
    return pando_highest_bits_portable(pando_load_sixteen(p)) |
           pando_highest_bits_portable(pando_load_sixteen(p + 16)) << 16;
}

#endif
