#include "csystem.h"
#include <string.h>

static uint32_t crc32c_portable(uint32_t crc, const unsigned char *p, size_t n) {
    static const uint32_t nibble[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    while (n--) {
        crc ^= *p++;
        crc = (crc >> 4) ^ nibble[crc & 15];
        crc = (crc >> 4) ^ nibble[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
__attribute__((target("sse4.2")))
static uint32_t crc32c_sse42(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t wide = crc;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
        p += 8;
        n -= 8;
    }
    crc = (uint32_t)wide;
    while (n--) crc = _mm_crc32_u8(crc, *p++);
    return crc;
}
#elif defined(__AARCH64EL__)
#include <arm_acle.h>
#include <sys/auxv.h>
// Optional in ARMv8.0, mandatory from ARMv8.1 on. getauxval(AT_HWCAP) reports whether this processor has it.
__attribute__((target("arch=armv8-a+crc")))
static uint32_t crc32c_armv8(uint32_t crc, const unsigned char *p, size_t n) {
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
        p += 8;
        n -= 8;
    }
    while (n--) crc = __crc32cb(crc, *p++);
    return crc;
}
#endif

uint32_t pando_crc32c(uint32_t seed, const void *bytes, size_t count) {
    uint32_t crc = ~seed;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc32c_sse42(crc, bytes, count);
#elif defined(__AARCH64EL__)
    if (getauxval(AT_HWCAP) & HWCAP_CRC32) return ~crc32c_armv8(crc, bytes, count);
#endif
    return ~crc32c_portable(crc, bytes, count);
}
