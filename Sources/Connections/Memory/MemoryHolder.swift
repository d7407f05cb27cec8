import PandoTime

/// A client that makes the server hold memory, as the order of disconnection judges it.
package struct MemoryHolder: Equatable, Sendable {
    /// The client's place in the caller's table.
    package var index: Int
    package var byteCount: Int
    package var progress: ClientProgress
    /// When it last sent anything.
    package var lastHeard: MonotonicTime

    package init(index: Int, byteCount: Int, progress: ClientProgress, lastHeard: MonotonicTime) {
        self.index = index
        self.byteCount = byteCount
        self.progress = progress
        self.lastHeard = lastHeard
    }
}

/// Which clients are disconnected when the process holds too much memory.
///
///     1. holds much, makes no steady progress     those that make none first, then those that are not known yet;
///                                                 of each the largest first
///     2. holds little (its progress is not        only where together they hold the excess, or where no client makes
///        measured)                                steady progress; the largest first, by powers of two, and of these
///                                                 the longest silent
///     3. holds much, makes steady progress        the largest first
///
/// The longer the limit has been exceeded, the more of these groups may be disconnected (``Reach``). So a
/// client that takes its output at ``ConnectionLimits/slowestBytesPerSecond`` is not disconnected while a
/// slower one that holds much could be; nor a silent listener that holds a few bytes, while others hold
/// thousands.
package enum MemoryRelief {
    /// A client that holds no more than this is neither paused nor disconnected before those that hold more.
    package static let smallByteCount = ConnectionLimits.smallByteCount

    /// The last group that may be disconnected.
    package enum Reach: Int, Comparable, Sendable {
        /// Only clients that hold much and make no steady progress.
        case large
        /// Also those that hold little.
        case small
        /// All.
        case steady

        package static func < (left: Reach, right: Reach) -> Bool { left.rawValue < right.rawValue }
    }

    /// The clients to be disconnected now, in order.
    /// - Parameters:
    ///   - excess: Bytes to be freed.
    ///   - limit: Most clients at a time: then what is left is looked at anew.
    ///   - reach: The longer the limit has been exceeded, the further it goes.
    /// - Complexity: O(*n* log *n*).
    package static func choose(
        from holders: [MemoryHolder], excess: Int, limit: Int, upTo reach: Reach
    ) -> [MemoryHolder] {
        let unsteady = holders.filter { $0.progress != .steady && $0.byteCount > 0 }
        let large = unsteady.filter { $0.byteCount > smallByteCount }
        if !large.isEmpty { return prefix(of: large.sorted(by: precedes), coveringExcess: excess, limit) }
        let small = unsteady.filter { $0.byteCount <= smallByteCount }
        let steady = holders.filter { $0.progress == .steady && $0.byteCount > smallByteCount }
        let smallSuffice = small.reduce(0) { $0 + $1.byteCount } >= excess
        guard smallSuffice || steady.isEmpty else {
            guard reach >= .steady else { return [] }
            return prefix(of: steady.sorted(by: precedes), coveringExcess: excess, limit)
        }
        guard reach >= .small else { return [] }
        return prefix(of: small.sorted(by: precedesAmongSmall), coveringExcess: excess, limit)
    }

    private static func precedes(_ left: MemoryHolder, _ right: MemoryHolder) -> Bool {
        (left.progress, right.byteCount) < (right.progress, left.byteCount)
    }

    private static func precedesAmongSmall(_ left: MemoryHolder, _ right: MemoryHolder) -> Bool {
        // The more leading zeros, the less it holds.
        let (first, second) = (left.byteCount.leadingZeroBitCount, right.byteCount.leadingZeroBitCount)
        return first != second ? first < second : left.lastHeard < right.lastHeard
    }

    private static func prefix(
        of holders: [MemoryHolder], coveringExcess excess: Int, _ limit: Int
    ) -> [MemoryHolder] {
        var left = excess
        return Array(
            holders.prefix(limit).prefix { holder in
                defer { left -= holder.byteCount }
                return left > 0
            })
    }
}
