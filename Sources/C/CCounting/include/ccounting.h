#pragma once
#include <stdint.h>

/* Counts calls of the Swift runtime that allocate objects and count references, for benchmarks.
 *
 * The runtime lets tools replace these functions (HeapObject.h of the Swift sources, "instruments only"). While
 * nothing is counted, the runtime's own are called directly. Counts are those of one thread: no other may run. */

typedef struct {
    uint64_t allocations;
    uint64_t retains;
    uint64_t releases;
} pando_counts;

/// Sets the counts to zero and starts counting.
void pando_counting_start(void);
/// Stops counting.
pando_counts pando_counting_stop(void);
