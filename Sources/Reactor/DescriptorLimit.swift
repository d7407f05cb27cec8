import CSystem

/// Lets the process have as many descriptors as the system allows it: a connection is one. Shells start programs
/// with 1024. Once, before connections are accepted; what the system does not allow stays as it is.
package func raiseDescriptorLimit() {
    _ = pando_raise_descriptor_limit()
}

/// How many descriptors the process may have: its soft limit. Where the system does not say, what every system gives.
package func descriptorLimit() -> Int {
    let limit = pando_descriptor_limit()
    return limit >= 0 ? Int(limit) : 1024
}

/// How many descriptors are open. One directory is read.
package func openDescriptorCount() -> Int {
    Int(pando_open_descriptor_count())
}
