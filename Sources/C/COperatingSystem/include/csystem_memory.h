// Settings and measurements of glibc's heap.
#ifndef PANDO_CSYSTEM_MEMORY_H
#define PANDO_CSYSTEM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/// Raises the size up to which freed blocks go to fastbins, which need no arena lock, from 128 to 160 bytes: allocations of
/// up to 152 bytes (mallopt(3), M_MXFAST: at most 80 * sizeof(size_t) / 4).
void pando_heap_raise_fastbin_limit(void);
/// Bytes that may be used of the block of the heap at an address (malloc_usable_size(3)).
size_t pando_heap_block_bytes(void *block);
/// Sets M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (mallopt(3)): blocks of `map_byte_count` and more are mapped by themselves and
/// unmapped when they are freed; the end of the heap is given back when more than `trim_byte_count` of it is free.
void pando_heap_set_thresholds(int map_byte_count, int trim_byte_count);
/// Sets M_TOP_PAD, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (mallopt(3)): the heap grows by `step_byte_count` at once, has all
/// blocks smaller than `map_byte_count`, and is never trimmed.
void pando_heap_grow_in_steps(int step_byte_count, int map_byte_count);
/// The address at which the heap ends (sbrk(2)).
uint64_t pando_heap_end(void);
/// 0 where pando_heap_populate() works, else -errno.
int pando_heap_can_populate(void);
/// Makes the pages of a range of memory present, and changes no byte (madvise(2), MADV_POPULATE_WRITE). -EINVAL where the
/// kernel does not know it, -ENOMEM where the range is not mapped.
int pando_heap_populate(uint64_t start, size_t byte_count);
/// Bytes of memory that this process may use: those of the machine, or fewer if its control group or container has fewer.
int64_t pando_usable_memory_bytes(void);
/// Bytes that were freed and are still the process's, of all arenas (mallinfo2(3)). Visits every free block, and holds the lock
/// of each arena for that time: milliseconds where very many are free.
size_t pando_heap_free_bytes(void);
/// Bytes of all blocks in use, with what the allocator adds to each, of all arenas (mallinfo2(3)); not those of blocks that are
/// mapped on their own. Takes as long as pando_heap_free_bytes().
size_t pando_heap_used_bytes(void);
/// Bytes that the process has in memory (/proc/self/statm); 0 where there is no such file.
int64_t pando_resident_bytes(void);
/// Gives unused whole pages of the heap back to the system (malloc_trim(3)). Holds the lock of each arena for that time.
void pando_heap_trim(void);
/// A block of the arena from which the calling thread allocates, for pando_heap_merge(), as its address; 0 where there is no
/// memory. Its pages are not used.
uint64_t pando_heap_token(void);
/// Merges the small blocks with their neighbours that were freed in the arena of a token since the last call, and holds its lock
/// for that time: some 50 ns each. Otherwise the next thread that allocates 1 KiB there does it. One thread at a time; returns the
/// token to use from now on.
uint64_t pando_heap_merge(uint64_t token);
void pando_heap_token_free(uint64_t token);
/// How many pages of a range are in memory (mincore(2)), for tests; -errno where some of it is not mapped.
int64_t pando_resident_page_count(uint64_t start, size_t byte_count);

#endif
