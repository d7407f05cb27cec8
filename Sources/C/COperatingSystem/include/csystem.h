// What Glibc's module does not show to Swift. All socket constants and structures come from here and nowhere
// else: mixing two modules' views of one header changes the types.
#ifndef PANDO_CSYSTEM_H
#define PANDO_CSYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include "csystem_journal.h"
#include "csystem_memory.h"

/// CRC-32C (Castagnoli) of `count` bytes; continues from `seed` (0 to begin). By the processor's instruction where it has
/// one (SSE 4.2, the CRC32 extension of ARMv8), else by a table.
uint32_t pando_crc32c(uint32_t seed, const void *bytes, size_t count);

/// Raises the soft limit of descriptors to the hard one. 0 or -errno.
int pando_raise_descriptor_limit(void);
/// Has the kernel make room for so many descriptors at once. 0 or -errno.
int pando_reserve_descriptor_table(int count);
/// The soft limit of descriptors, INT32_MAX for none; or -errno.
int64_t pando_descriptor_limit(void);
/// Descriptors that are open.
int64_t pando_open_descriptor_count(void);

#endif
