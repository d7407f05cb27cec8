import PandoReactor
import Synchronization

/// Bytes that large requests of clients take once they are parsed, until the databases have finished them. A
/// message of 39 kB that is compressed may hold 4 million elements, which take 150 MB: so over the limit no
/// further large message or body is parsed, of any client, until an earlier one is finished. One may
/// always be parsed.
///
///     worker ── waits while exhausted ──▶ parse ── grant ──▶ session ──▶ databases ──▶ request released: grant ends
///
/// Any thread.
package final class ParsingBudget: Sendable {
    /// What one request takes, until it is released.
    package final class Grant: Sendable {
        private let budget: ParsingBudget
        private let byteCount: Int

        fileprivate init(_ byteCount: Int, of budget: ParsingBudget) {
            self.byteCount = byteCount
            self.budget = budget
        }

        deinit { budget.release(byteCount) }
    }

    /// A node of a byte or two of text (`0,`) takes some 32 bytes: the most that text can grow by.
    private static let growthFactor = 16

    private let byteLimit: Int
    private let held = Atomic<Int>(0)
    private let waiting = Mutex<[WakeupEvent]>([])

    package init(byteLimit: Int) {
        self.byteLimit = max(1, byteLimit)
    }

    /// Whether no more is to be parsed now.
    package var isExhausted: Bool { held.load(ordering: .relaxed) >= byteLimit }

    /// Bytes that are granted.
    package var byteCount: Int { held.load(ordering: .relaxed) }

    /// Has a thread woken when something is released: it may parse again.
    package func wake(_ wakeup: WakeupEvent) { waiting.withLock { $0.append(wakeup) } }

    /// Charges a request.
    /// - Parameter textByteCount: Bytes of its message or body, inflated.
    package func grant(forTextOf textByteCount: Int) -> Grant {
        let (product, overflows) = textByteCount.multipliedReportingOverflow(by: Self.growthFactor)
        // Far above any limit, and a sum of them does not overflow.
        let byteCount = overflows ? 1 << 40 : min(product, 1 << 40)
        held.add(byteCount, ordering: .relaxed)
        return Grant(byteCount, of: self)
    }

    private func release(_ byteCount: Int) {
        let left = held.subtract(byteCount, ordering: .relaxed).newValue
        precondition(left >= 0, "more bytes were released than granted")
        guard left < byteLimit, left + byteCount >= byteLimit else { return }
        waiting.withLock { for wakeup in $0 { wakeup.signal() } }
    }
}
