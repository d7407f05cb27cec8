#define _GNU_SOURCE
#include "csystem_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14, <asm-generic/mman-common.h>
#endif

void pando_heap_raise_fastbin_limit(void) {
    mallopt(M_MXFAST, 80 * sizeof(size_t) / 4);
}

size_t pando_heap_block_bytes(void *block) {
    return malloc_usable_size(block);
}

void pando_heap_set_thresholds(int map_byte_count, int trim_byte_count) {
    mallopt(M_MMAP_THRESHOLD, map_byte_count);
    mallopt(M_TRIM_THRESHOLD, trim_byte_count);
}

void pando_heap_grow_in_steps(int step_byte_count, int map_byte_count) {
    mallopt(M_TOP_PAD, step_byte_count);
    mallopt(M_MMAP_THRESHOLD, map_byte_count);
    mallopt(M_TRIM_THRESHOLD, -1);
}

// The number in a file of one line; INT64_MAX for none ("max", or no such file).
static int64_t number_in(const char *path) {
    int64_t number = INT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) return number;
    if (fscanf(file, "%" SCNd64, &number) != 1) number = INT64_MAX;
    fclose(file);
    return number;
}

int64_t pando_usable_memory_bytes(void) {
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t least = pages > 0 && page > 0 ? pages * page : INT64_MAX;
    // A container sees its own group as the root of the hierarchy.
    int64_t limits[] = {
        number_in("/sys/fs/cgroup/memory.max"), number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")};
    // A service of systemd has a group of its own: `0::/system.slice/pando.service`.
    FILE *groups = fopen("/proc/self/cgroup", "re");
    char line[512], path[640];
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        // The limits of its parents apply, too.
        for (char *end = line + strlen(line); end > line + 3; end = strrchr(line, '/')) {
            *end = 0;
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line + 3);
            int64_t limit = number_in(path);
            if (limit > 0 && limit < least) least = limit;
        }
    }
    if (groups != NULL) fclose(groups);
    for (size_t index = 0; index < sizeof limits / sizeof limits[0]; index++)
        if (limits[index] > 0 && limits[index] < least) least = limits[index];
    return least;
}

size_t pando_heap_free_bytes(void) { return mallinfo2().fordblks; }

size_t pando_heap_used_bytes(void) { return mallinfo2().uordblks; }

int64_t pando_resident_bytes(void) {
    int64_t size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%" SCNd64 " %" SCNd64, &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

void pando_heap_trim(void) { malloc_trim(0); }

// What glibc frees without merging (fastbins) it merges when a block of 64 KiB or more is freed in the same arena
// (FASTBIN_CONSOLIDATION_THRESHOLD). realloc(3) frees the end of a block that shrinks, and enlarges one, in its own arena,
// whichever thread calls it. Below M_MMAP_THRESHOLD, so that it is a block of the heap.
enum { token_byte_count = 96 << 10, shrunk_byte_count = 1 << 10 };

uint64_t pando_heap_token(void) { return (uint64_t)(uintptr_t)malloc(token_byte_count); }

uint64_t pando_heap_merge(uint64_t token) {
    void *shrunk = realloc((void *)(uintptr_t)token, shrunk_byte_count);
    if (shrunk == NULL) return token;
    void *grown = realloc(shrunk, token_byte_count);
    return (uint64_t)(uintptr_t)(grown == NULL ? shrunk : grown);
}

void pando_heap_token_free(uint64_t token) { free((void *)(uintptr_t)token); }

uint64_t pando_heap_end(void) {
    return (uint64_t)(uintptr_t)sbrk(0);
}

int pando_heap_populate(uint64_t start, size_t byte_count) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = start & ~(page - 1);
    size_t length = byte_count + (size_t)(start - first);
    return madvise((void *)(uintptr_t)first, length, MADV_POPULATE_WRITE) != 0 ? -errno : 0;
}

int pando_heap_can_populate(void) {
    char here = 0;
    return pando_heap_populate((uint64_t)(uintptr_t)&here, 1);
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
