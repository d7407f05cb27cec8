#define _GNU_SOURCE
#include "csystem_memory.h"

#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14, <asm-generic/mman-common.h>
#endif

void pando_heap_free_across_threads(void) {
    mallopt(M_MXFAST, 80 * sizeof(size_t) / 4);
}

void pando_heap_only_grow(int step_byte_count, int map_byte_count) {
    mallopt(M_TOP_PAD, step_byte_count);
    mallopt(M_MMAP_THRESHOLD, map_byte_count);
    mallopt(M_TRIM_THRESHOLD, -1);
}

uint64_t pando_heap_end(void) {
    return (uint64_t)(uintptr_t)sbrk(0);
}

int pando_heap_touch(uint64_t start, size_t byte_count) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = start & ~(page - 1);
    size_t length = byte_count + (size_t)(start - first);
    return madvise((void *)(uintptr_t)first, length, MADV_POPULATE_WRITE) != 0 ? -errno : 0;
}

int pando_heap_can_touch(void) {
    char here = 0;
    return pando_heap_touch((uint64_t)(uintptr_t)&here, 1);
}

int64_t pando_resident_page_count(uint64_t start, size_t byte_count) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int64_t count = 0;
    for (uint64_t address = start & ~(page - 1); address < start + byte_count; address += page) {
        unsigned char is_resident = 0;
        if (mincore((void *)(uintptr_t)address, page, &is_resident) != 0) return -errno;
        count += is_resident & 1;
    }
    return count;
}
