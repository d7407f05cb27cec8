import PandoTime

/// How fast bytes move that are due from a peer, or that it has to read. Confined to a loop; looked at now
/// and then.
///
/// A peer is too slow if no byte moves for a whole window, or fewer than the rate in one window: earlier
/// speed does not count.
package struct MinimumRateMonitor {
    private var count: Int
    private var lastMove: MonotonicTime
    private var windowBegan: MonotonicTime
    private var countBefore: Int

    /// - Parameter count: Bytes moved so far; it never falls.
    package init(_ count: Int = 0, at now: MonotonicTime) {
        self.count = count
        countBefore = count
        lastMove = now
        windowBegan = now
    }

    /// Looks at what has moved by now.
    package mutating func isTooSlow(
        _ count: Int, at now: MonotonicTime, window: Duration, bytesPerSecond: Int
    ) -> Bool {
        if count != self.count {
            self.count = count
            lastMove = now
        }
        if now - lastMove > window { return true }
        guard now - windowBegan > window else { return false }
        let moved = Double(count - countBefore)
        windowBegan = now
        countBefore = count
        return moved < Double(bytesPerSecond) * (window / .seconds(1))
    }
}
