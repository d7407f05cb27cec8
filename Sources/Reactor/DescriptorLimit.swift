import COperatingSystem

/// Raises the process's soft limit of descriptors to its hard limit (setrlimit(2)): shells start programs
/// with a soft limit of 1024, and each connection needs one. Call it once, before connections are accepted.
/// Where it fails the limit stays as it is.
package func raiseDescriptorLimit() {
    _ = pando_raise_descriptor_limit()
}

/// Has the kernel allocate its table of this process's descriptors for the soft limit, or for
/// ``reservedDescriptorCount`` if that is less. Without it, the table doubles as connections are accepted,
/// and in a process with threads the kernel then waits for all processors: `accept` returns tens of
/// milliseconds late. Call it once, before threads are started. 8 bytes of kernel memory for each descriptor.
package func reserveDescriptorTable() {
    _ = pando_reserve_descriptor_table(Int32(min(descriptorLimit(), reservedDescriptorCount)))
}

/// A table of 512 KiB.
private let reservedDescriptorCount = 1 << 16

/// The process's soft limit of descriptors; 1024 where the system does not tell.
package func descriptorLimit() -> Int {
    let limit = pando_descriptor_limit()
    return limit >= 0 ? Int(limit) : 1024
}

/// How many descriptors the process has open. Before Linux 6.2 this reads the directory `/proc/self/fd`:
/// O(descriptors).
package func openDescriptorCount() -> Int {
    Int(pando_open_descriptor_count())
}
