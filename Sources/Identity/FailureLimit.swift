import PandoBytes
import Synchronization

/// Counts bad tokens by the address that shows them. From the limit on, only tokens that may well be good are
/// looked at until the minute is over, so that guessing costs the guesser more than us (auth §5.3), and
/// whoever shares the address with one gets in all the same.
///
/// Any thread. Bounded: of more than ``addressLimit`` addresses those are forgotten that are not heard of.
package final class FailureLimit: Sendable {
    /// Addresses that are counted at once; about half a MiB.
    static let addressLimit = 4096
    static let window: Duration = .seconds(60)

    private struct Count {
        var failures: Int
        var began: Duration
    }

    private let limit: Int
    private let counts = Mutex(RecentTable<AddressGroup, Count>(limit: addressLimit))

    /// - Parameter limit: Failures in a minute; 0 for any number.
    package init(perMinute limit: Int) {
        self.limit = limit
    }

    /// Counts a failure before it is one: of many tokens that are verified at once, no more than the limit
    /// begin. ``forgive(_:now:)`` takes it back.
    /// - Parameter now: Monotonic.
    /// - Returns: false when the address has no more to spend; nothing is counted then.
    package func mayFail(_ address: Text, now: Duration) -> Bool {
        guard limit > 0 else { return true }
        let group = AddressGroup(address)
        return counts.withLock { counts in
            guard var count = counts[group], now - count.began < Self.window else {
                counts.set(Count(failures: 1, began: now), for: group)
                return true
            }
            guard count.failures < limit else { return false }
            count.failures += 1
            counts.set(count, for: group)
            return true
        }
    }

    /// What was begun was no failure.
    package func forgive(_ address: Text, now: Duration) {
        guard limit > 0 else { return }
        let group = AddressGroup(address)
        counts.withLock { counts in
            guard var count = counts[group], now - count.began < Self.window, count.failures > 0 else {
                return
            }
            count.failures -= 1
            counts.set(count, for: group)
        }
    }

    var addressCount: Int { counts.withLock { $0.count } }
}
