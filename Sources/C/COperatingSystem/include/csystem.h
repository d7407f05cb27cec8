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

/// Starts a program in a process group of its own, with this process's environment, no input, and its output and errors in
/// a pipe. `arguments` are `byte_count` bytes of texts, each ended by NUL; the first is the program's name. 0 or -errno.
int pando_process_start(
    const char *path, const char *arguments, size_t byte_count, int64_t *process, int *output);
/// Waits for output, but no longer than the time. The number of bytes, 0 at the end of all output, or -errno; EAGAIN is the
/// end of the time.
int64_t pando_process_read(int output, void *bytes, size_t capacity, int milliseconds);
/// Whether an error number says that there was no output in time.
int pando_process_is_again(int error);
/// Closes the pipe and waits for the end of the process, killing it first if `kills`. Its exit code, 128 + the number of the
/// signal that ended it, or -errno.
int pando_process_end(int64_t process, int output, int kills);

#endif
