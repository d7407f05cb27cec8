import CSystem

/// Has threads give back each other's memory without waiting for each other, where it is small enough: up to
/// 152 bytes. Once, before threads are there.
///
/// What a loop has read of a request, the database thread gives back. In glibc that takes the lock of the
/// heap that the loop allocates from, for more than 120 bytes: 20 000 to 90 000 waits a second under 350 000
/// writes, and 5 to 8 % of the processor time of each. What is given back without the lock is joined with its
/// neighbours later.
package func raiseFastbinLimit() {
    pando_heap_free_across_threads()
}

/// Has large memory come from the system and go back to it, past the heaps: buffers of large messages, which
/// are kept for a moment. Otherwise glibc takes the size of whatever was freed last as the one from which it
/// does so, up to 32 MiB, and what such buffers leave in the heaps must be looked for later, under their
/// locks (``FreedMemory/release()``). Once, before threads are there.
package func keepLargeMemoryOutOfHeaps() {
    pando_heap_map_from(mappedByteCount, trimmedByteCount)
}

/// glibc's own value before it has seen anything freed.
private let mappedByteCount: Int32 = 128 << 10
/// Far more than a burst of small memory: the end of the heap does not move with each.
private let trimmedByteCount: Int32 = 64 << 20
