import PandoBytes
import PandoIdentity
import PandoTime
import Synchronization

/// Whose connections and writes are counted together: a user, as a token proves it.
package struct LimitedUser: Hashable, Sendable {
    let uid: Text
    /// Users of two issuers may have the same uid.
    let issuer: Text?

    /// Nil for administrators, who have no limit, and for a token without a uid.
    package init?(_ identity: Identity) {
        guard !identity.credential.isAdmin, let uid = identity.credential.uid, uid.utf8Count > 0 else {
            return nil
        }
        self.uid = uid
        issuer = identity.issuer
    }
}

/// An IPv4 address, or an IPv6 network of 64 bits, which is what a subscriber gets (RFC 6177).
package struct ClientNetwork: Hashable, Sendable {
    private let family: UInt8
    private let prefix: UInt64

    /// - Parameters:
    ///   - family: Distinguishes IPv4 from IPv6.
    ///   - prefix: The first 64 bits of the address, or all of it.
    package init(family: UInt8, prefix: UInt64) {
        self.family = family
        self.prefix = prefix
    }
}

/// Whose writes are counted together over all connections.
package enum LimitedClient: Hashable, Sendable {
    case user(LimitedUser)
    /// Not signed in, behind a trusted proxy, whose connections bring the requests of many.
    case network(ClientNetwork)
}

/// Bounds the connections of one user and the writes of one client over all loops. Any thread.
package final class UserLimiter: Sendable {
    private struct Entry {
        var connectionCount = 0
        var buckets = WriteBuckets()
    }

    private struct Table {
        var entries: [LimitedClient: Entry] = [:]
        /// Entries at which those are removed that say nothing any more.
        var sweepCount = UserLimiter.smallestSweepCount
    }

    /// Fewer entries are not worth a visit to all of them.
    private static let smallestSweepCount = 1024

    /// Most connections of one user at the same time; 0 for no limit.
    package let connectionLimit: Int
    private let rates: WriteRates
    private let table = Mutex(Table())

    /// - Parameter connectionLimit: 0 for no limit.
    package init(connectionLimit: Int, rates: WriteRates) {
        self.connectionLimit = connectionLimit
        self.rates = rates
    }

    /// Counts a connection until the grant is freed. O(1) amortised.
    /// - Returns: nil where as many are open as may be.
    package func admit(_ user: LimitedUser, at now: MonotonicTime) -> Grant? {
        let isAdmitted = table.withLock { table in
            var entry = table.entries[.user(user)] ?? Entry()
            guard connectionLimit == 0 || entry.connectionCount < connectionLimit else { return false }
            entry.connectionCount += 1
            Self.store(entry, of: .user(user), in: &table, at: now)
            return true
        }
        return isAdmitted ? Grant(user, self) : nil
    }

    /// Counts a write of a client. O(1) amortised.
    /// - Parameter limit: The longest that it may wait; nil where it must be made now. Writes that wait are
    ///   made in the order in which they were counted.
    package func takeWrite(
        _ byteCount: Int, of client: LimitedClient, waitingAtMost limit: Duration? = nil,
        at now: MonotonicTime
    ) -> RateDecision {
        guard !rates.isUnlimited else { return .now }
        return table.withLock { table in
            var entry = table.entries[client] ?? Entry()
            let excess = entry.buckets.excess(at: now, rates)
            if let excess, excess.isLonger(than: limit) { return .refused(excess) }
            entry.buckets.spend(byteCount, at: now, rates)
            Self.store(entry, of: client, in: &table, at: now)
            return excess.map { .later($0) } ?? .now
        }
    }

    /// Counts bytes of a write that was counted before. O(1) amortised.
    func spend(moreBytes byteCount: Int, of client: LimitedClient, at now: MonotonicTime) {
        guard rates.bytesPerSecond > 0 else { return }
        table.withLock { table in
            var entry = table.entries[client] ?? Entry()
            entry.buckets.spend(moreBytes: byteCount, at: now, rates)
            Self.store(entry, of: client, in: &table, at: now)
        }
    }

    private static func store(
        _ entry: Entry, of client: LimitedClient, in table: inout Table, at now: MonotonicTime
    ) {
        table.entries[client] = entry
        guard table.entries.count >= table.sweepCount else { return }
        table.entries = table.entries.filter {
            $0.value.connectionCount > 0 || !$0.value.buckets.areFull(at: now)
        }
        table.sweepCount = max(smallestSweepCount, table.entries.count * 2)
    }

    private func release(_ user: LimitedUser) {
        table.withLock { table in
            guard var entry = table.entries[.user(user)] else { return }
            entry.connectionCount -= 1
            // What it has written lately counts when it comes again.
            let isOver = entry.connectionCount == 0 && entry.buckets == WriteBuckets()
            table.entries[.user(user)] = isOver ? nil : entry
        }
    }

    /// Clients that are remembered now.
    package var clientCount: Int { table.withLock { $0.entries.count } }

    /// One connection that is counted.
    package final class Grant: Sendable {
        package let user: LimitedUser
        private let limiter: UserLimiter

        fileprivate init(_ user: LimitedUser, _ limiter: UserLimiter) {
            self.user = user
            self.limiter = limiter
        }

        deinit { limiter.release(user) }
    }
}
