#pragma once
#include <stdint.h>

/* Counts calls of the Swift runtime that allocate objects and count references, for benchmarks and tests of how much
 * work something is.
 *
 * The runtime lets tools replace these functions (HeapObject.h of the Swift sources, "instruments only"). While no
 * thread counts, the runtime's own are called directly. Each thread has counts of its own. */

typedef struct {
    uint64_t allocations;
    uint64_t retains;
    uint64_t releases;
} pando_counts;

/// Sets this thread's counts to zero and starts counting. Calls do not nest.
void pando_counting_start(void);
/// Stops counting on this thread.
pando_counts pando_counting_stop(void);
