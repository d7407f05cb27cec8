import CSystem

/// Lets the process have as many descriptors as the system allows it: a connection is one. Shells start programs
/// with 1024. Once, before connections are accepted; what the system does not allow stays as it is.
package func raiseDescriptorLimit() {
    _ = pando_raise_descriptor_limit()
}
