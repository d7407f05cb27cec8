import Synchronization

/// What counts as one client's: an IPv4 address, or an IPv6 network of 64 bits, which is what a subscriber
/// gets (RFC 6177).
package struct AddressNetwork: Hashable, Sendable {
    /// As ``SocketAddress/family``, of an address without mapping.
    package let family: UInt8
    /// Of IPv6 the first 64 bits.
    package let prefix: UInt64

    package init(_ address: SocketAddress) {
        let plain = address.withoutMapping
        family = plain.family
        prefix = plain.octets.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Bounds the connections of one ``AddressNetwork``. Any thread.
package final class AddressLimiter: Sendable {

    /// Most connections of one address at the same time.
    package let limit: Int
    private let counts = Mutex<[AddressNetwork: Int]>([:])

    /// - Parameter limit: Positive.
    package init(limit: Int) {
        precondition(limit > 0)
        self.limit = limit
    }

    /// Counts a connection until the grant is freed. O(1).
    /// - Returns: nil where as many are open as may be.
    package func admit(_ address: SocketAddress) -> Grant? {
        let key = AddressNetwork(address)
        let isAdmitted = counts.withLock { counts in
            let count = counts[key] ?? 0
            guard count < limit else { return false }
            counts[key] = count + 1
            return true
        }
        return isAdmitted ? Grant { [self] in release(key) } : nil
    }

    private func release(_ key: AddressNetwork) {
        counts.withLock { counts in
            guard let count = counts[key] else { return }
            counts[key] = count > 1 ? count - 1 : nil
        }
    }

    /// Addresses that have connections now.
    package var addressCount: Int { counts.withLock { $0.count } }

    /// One connection that is counted.
    package final class Grant: Sendable {
        private let release: @Sendable () -> Void

        /// - Parameter release: Called once, by the thread that frees the grant.
        package init(_ release: @escaping @Sendable () -> Void) {
            self.release = release
        }

        deinit { release() }
    }
}
