import CSystem

/// Lets the process have as many descriptors as the system allows it: a connection is one. Shells start
/// programs with 1024. Once, before connections are accepted; what the system does not allow stays as it is.
package func raiseDescriptorLimit() {
    _ = pando_raise_descriptor_limit()
}

/// Has the kernel make its table of this process's descriptors as large as it may become, up to
/// ``reservedDescriptorCount``. In a process with threads it waits for all processors each time the table
/// doubles, some tens of milliseconds, in which `accept` does not return. Once, before threads are there;
/// costs 8 bytes of kernel memory for each.
package func reserveDescriptorTable() {
    _ = pando_reserve_descriptor_table(Int32(min(descriptorLimit(), reservedDescriptorCount)))
}

/// 512 KiB of kernel memory.
private let reservedDescriptorCount = 1 << 16

/// How many descriptors the process may have: its soft limit. Where the system does not say, what every
/// system gives.
package func descriptorLimit() -> Int {
    let limit = pando_descriptor_limit()
    return limit >= 0 ? Int(limit) : 1024
}

/// How many descriptors are open. One directory is read.
package func openDescriptorCount() -> Int {
    Int(pando_open_descriptor_count())
}
