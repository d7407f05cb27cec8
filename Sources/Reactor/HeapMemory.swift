import COperatingSystem

/// Bytes of memory that this process may use: those of the machine, or fewer if its control group (cgroups 1
/// and 2) has fewer.
package func usableMemoryByteCount() -> Int { Int(clamping: pando_usable_memory_bytes()) }

/// Memory of the whole process that was freed and that the allocator has not given back to the system.
package enum FreedMemory {
    /// Bytes that the allocator holds. O(free blocks), and holds each arena's lock while it visits that
    /// arena's (mallinfo2(3)): milliseconds after much was deleted, in which threads that allocate there
    /// wait.
    package static var byteCount: Int { Int(clamping: pando_heap_free_bytes()) }

    /// Bytes that the process has in memory, the heap and everything else; 0 where the system does not tell.
    package static var residentByteCount: Int { Int(clamping: pando_resident_bytes()) }

    /// Gives unused pages back to the system (malloc_trim(3)). Takes milliseconds, and holds each arena's
    /// lock for that time.
    package static func release() { pando_heap_trim() }
}
