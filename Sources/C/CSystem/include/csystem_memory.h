// The heap: of a server whose threads hand memory to each other, and of a command that builds one large value and ends.
#ifndef PANDO_CSYSTEM_MEMORY_H
#define PANDO_CSYSTEM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/// From now on small memory that another thread has taken is given back without that thread's lock. glibc does so for
/// chunks of up to 128 bytes, and can for up to 160, which are requests of 152 (mallopt(3), M_MXFAST: at most
/// 80 * sizeof(size_t) / 4).
void pando_heap_free_across_threads(void);
/// From now on memory of `map_byte_count` and more is a mapping of its own, which is gone when it is freed, and the end of
/// the heap is given back when more than `trim_byte_count` of it is free (mallopt(3)).
void pando_heap_map_from(int map_byte_count, int trim_byte_count);
/// From now on the heap grows by so many bytes at once, has all that is smaller than `map_byte_count` in it, and gives
/// nothing back (mallopt(3)).
void pando_heap_only_grow(int step_byte_count, int map_byte_count);
/// The address at which the heap ends (sbrk(2)).
uint64_t pando_heap_end(void);
/// 0 where pando_heap_touch() works here, or -errno.
int pando_heap_can_touch(void);
/// Makes the pages of a part of the heap present, and changes no byte of it (madvise(2), MADV_POPULATE_WRITE). -EINVAL
/// where the kernel cannot, -ENOMEM where there is no memory of ours.
int pando_heap_touch(uint64_t start, size_t byte_count);
/// Bytes of memory that this process may use: those of the machine, or fewer if its control group or container has fewer.
int64_t pando_usable_memory_bytes(void);
/// Bytes that were given back to the heap and are still the process's (mallinfo2(3)): of all arenas.
size_t pando_heap_free_bytes(void);
/// Bytes that the process has in memory (/proc/self/statm); 0 where that is not there.
int64_t pando_resident_bytes(void);
/// Gives unused whole pages of the heap back to the system (malloc_trim(3)). Holds the lock of each arena meanwhile.
void pando_heap_trim(void);
/// How many pages of a range are in memory (mincore(2)), for tests; -errno where some of it is not mapped.
int64_t pando_resident_page_count(uint64_t start, size_t byte_count);

#endif
