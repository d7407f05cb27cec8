import PandoBytes
import Synchronization

/// Counts bad tokens by client address. Once an address has reached the limit, only tokens that name a known
/// key are verified until the minute is over. So guessing costs an attacker more than the server (auth §5.3),
/// and other clients at the same address can still sign in.
///
/// Any thread. Bounded: of more than ``addressLimit`` addresses the ones without recent failures are removed.
package final class FailureLimit: Sendable {
    /// Addresses in the table; about half a MiB.
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

    /// Counts a failure in advance, before a token is verified. So of many tokens at the same time no more
    /// than the limit are verified. ``removeFailure(of:now:)`` undoes it.
    /// - Parameter now: Monotonic.
    /// - Returns: false when the address has reached the limit. Then nothing is counted.
    /// - Complexity: O(1).
    package func countFailure(of address: Text, now: Duration) -> Bool {
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

    /// Undoes a ``countFailure(of:now:)``: the verification did not fail. O(1).
    package func removeFailure(of address: Text, now: Duration) {
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
