import Synchronization

/// A member of large structs that cannot be copied: it makes the compiler pass them by their address.
///
/// Without it, each call of a method that only reads the struct gets a copy of all its bytes. (The compiler
/// could not see otherwise that nothing writes to the struct meanwhile.) An atomic has an identity, so it,
/// and what contains it, stays where it is. One byte.
package struct PassedByAddress: ~Copyable, Sendable {
    private let marker = Atomic<Bool>(false)

    package init() {}
}
