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

/// Bounds the connections and the writes of one user over all loops. Any thread.
package final class UserLimiter: Sendable {
    private struct Entry {
        var connectionCount = 0
        var buckets = WriteBuckets()
    }

    private struct Table {
        var entries: [LimitedUser: Entry] = [:]
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
            var entry = table.entries[user] ?? Entry()
            guard connectionLimit == 0 || entry.connectionCount < connectionLimit else { return false }
            entry.connectionCount += 1
            Self.store(entry, of: user, in: &table, at: now)
            return true
        }
        return isAdmitted ? Grant(user, self) : nil
    }

    /// Counts a write of a user. O(1) amortised.
    /// - Returns: Why it may not be made; then it is not counted. nil where it may.
    package func takeWrite(_ byteCount: Int, of user: LimitedUser, at now: MonotonicTime) -> RateRefusal? {
        guard !rates.isUnlimited else { return nil }
        return table.withLock { table in
            var entry = table.entries[user] ?? Entry()
            if let refusal = entry.buckets.refusal(at: now, rates) { return refusal }
            entry.buckets.take(byteCount, at: now, rates)
            Self.store(entry, of: user, in: &table, at: now)
            return nil
        }
    }

    private static func store(
        _ entry: Entry, of user: LimitedUser, in table: inout Table, at now: MonotonicTime
    ) {
        table.entries[user] = entry
        guard table.entries.count >= table.sweepCount else { return }
        table.entries = table.entries.filter {
            $0.value.connectionCount > 0 || !$0.value.buckets.areFull(at: now)
        }
        table.sweepCount = max(smallestSweepCount, table.entries.count * 2)
    }

    private func release(_ user: LimitedUser) {
        table.withLock { table in
            guard var entry = table.entries[user] else { return }
            entry.connectionCount -= 1
            // What it has written lately counts when it comes again.
            let isOver = entry.connectionCount == 0 && entry.buckets == WriteBuckets()
            table.entries[user] = isOver ? nil : entry
        }
    }

    /// Users that are remembered now.
    package var userCount: Int { table.withLock { $0.entries.count } }

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
