#pragma once
#include <stdint.h>

/* How often the Swift runtime was called to make an object, and to count references; for benchmarks.
 *
 * The runtime lets tools put functions of their own in place of its own (HeapObject.h of the Swift sources,
 * "instruments only"). While nothing is counted its own are called directly. One thread. */

typedef struct {
    uint64_t allocations;
    uint64_t retains;
    uint64_t releases;
} pando_counts;

void pando_counting_start(void);
pando_counts pando_counting_stop(void);
