import COperatingSystem

/// Lets threads free blocks of up to 152 bytes that another thread has allocated without a lock (mallopt(3),
/// M_MXFAST). Call it once, before threads are started.
///
/// The database thread frees what an I/O loop has allocated for a request. For blocks above 120 bytes glibc
/// then takes the lock of the arena that the loop allocates from: 20 000 to 90 000 waits a second under 350
/// 000 writes a second, 5 to 8 % of the processor time of each. Blocks that are freed without the lock are
/// merged with their neighbours later (``Heaps``).
package func raiseFastbinLimit() {
    pando_heap_raise_fastbin_limit()
    Heaps.addOfThisThread()
}

/// Bytes of the block of the heap that holds an object: one of more than ``unlockedFreeByteLimit`` is freed
/// under a lock.
package func heapByteCount(of object: AnyObject) -> Int {
    unsafe pando_heap_block_bytes(Unmanaged.passUnretained(object).toOpaque())
}

/// The largest block that malloc frees without the lock of its arena, behind ``raiseFastbinLimit()``.
package let unlockedFreeByteLimit = 152

/// Has malloc map blocks of 128 KiB and more by themselves, outside the heaps, so that they go back to the
/// system when they are freed: buffers of large messages, which live for a moment. Without this setting glibc
/// raises that size to the largest block that was freed, up to 32 MiB (mallopt(3), M_MMAP_THRESHOLD), and the
/// pages of such buffers stay in the heaps until ``FreedMemory/release()``. Call it once, before threads are
/// started.
package func mapLargeAllocations() {
    pando_heap_set_thresholds(mappedByteCount, trimmedByteCount)
}

/// glibc's value before any block was freed.
private let mappedByteCount: Int32 = 128 << 10
/// The end of the heap is given back when more than this is free: far more than a burst of small blocks, so
/// that it does not move with each burst.
private let trimmedByteCount: Int32 = 64 << 20
