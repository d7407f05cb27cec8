import CSystem

/// Bytes of memory that this process may use: those of the machine, or fewer if its control group (cgroups 1
/// and 2) has fewer.
package func usableMemoryByteCount() -> Int { Int(clamping: pando_usable_memory_bytes()) }

/// Memory that was freed and is kept by the allocator, of the whole process.
package enum FreedMemory {
    /// Bytes that are kept. Takes each arena's lock for some microseconds.
    package static var byteCount: Int { Int(clamping: pando_heap_free_bytes()) }

    /// Bytes that the process has in memory, of the heap and of everything else; 0 where the system does not
    /// tell.
    package static var residentByteCount: Int { Int(clamping: pando_resident_bytes()) }

    /// Gives unused pages back to the system. Takes milliseconds, and holds the lock of each arena meanwhile.
    package static func release() { pando_heap_trim() }
}
