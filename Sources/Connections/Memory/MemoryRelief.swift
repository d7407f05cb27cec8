/// Which clients are disconnected, or paused, when the process holds too much memory: of all that are added,
/// those that come first in an order.
///
///     1. holds much, makes no steady progress     those that make none first, then those that are not known yet;
///                                                 of each the largest first
///     2. holds little (its progress is not        if together they hold the excess, or if group 3 is empty. The
///        measured)                                largest first, by powers of two, and of these the longest silent
///     3. holds much, makes steady progress        the largest first
///
/// The longer the limit has been exceeded, the more of these groups may be disconnected (``Reach``). So a
/// client that takes its output at ``ConnectionLimits/slowestBytesPerSecond`` is not disconnected while a
/// slower one that holds much could be; nor a silent listener that holds a few bytes, while others hold
/// thousands.
///
/// It keeps only the first of each group: its memory and its longest call do not grow with the number of
/// clients.
package struct MemoryRelief {
    /// A client that holds no more than this holds little.
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

    private var unsteady: BoundedSelection
    private var small: BoundedSelection
    private var steady: BoundedSelection
    /// Those that hold much, the largest first, whatever progress they make.
    private var large: BoundedSelection
    /// What all that hold little hold together.
    private var smallTotalByteCount = 0
    /// What all hold together that hold much and make no steady progress.
    package private(set) var unsteadyByteCount = 0

    /// - Parameter limit: Most clients that are chosen at a time. When they are gone, a new scan decides.
    package init(limit: Int) {
        unsteady = BoundedSelection(limit: limit, by: Self.precedes)
        steady = BoundedSelection(limit: limit, by: Self.precedes)
        small = BoundedSelection(limit: limit, by: Self.precedesAmongSmall)
        large = BoundedSelection(limit: limit) { $0.byteCount > $1.byteCount }
    }

    /// Adds a client. One that holds nothing is left out. O(log limit), on average; at most the time to sort
    /// twice the limit.
    package mutating func add(_ holder: MemoryHolder) {
        guard holder.byteCount > 0 else { return }
        if holder.byteCount <= Self.smallByteCount {
            // Progress is not measured of what is so little.
            guard holder.progress != .steady else { return }
            smallTotalByteCount += holder.byteCount
            return small.add(holder)
        }
        large.add(holder)
        guard holder.progress != .steady else { return steady.add(holder) }
        unsteadyByteCount += holder.byteCount
        unsteady.add(holder)
    }

    /// The clients to be disconnected now, in order.
    /// - Parameters:
    ///   - excess: Bytes to be freed.
    ///   - reach: The longer the limit has been exceeded, the further it goes.
    /// - Complexity: O(limit × log limit).
    package mutating func chosen(covering excess: Int, upTo reach: Reach) -> [MemoryHolder] {
        if !unsteady.isEmpty { return unsteady.prefix(covering: excess) }
        guard smallTotalByteCount >= excess || steady.isEmpty else {
            return reach >= .steady ? steady.prefix(covering: excess) : []
        }
        return reach >= .small ? small.prefix(covering: excess) : []
    }

    /// The clients that hold much, the largest first, whatever progress they make: those that are paused.
    /// - Complexity: O(limit × log limit).
    package mutating func largest(covering excess: Int) -> [MemoryHolder] { large.prefix(covering: excess) }

    private static func precedes(_ left: MemoryHolder, _ right: MemoryHolder) -> Bool {
        (left.progress, right.byteCount) < (right.progress, left.byteCount)
    }

    private static func precedesAmongSmall(_ left: MemoryHolder, _ right: MemoryHolder) -> Bool {
        // The more leading zeros, the less it holds.
        let (first, second) = (left.byteCount.leadingZeroBitCount, right.byteCount.leadingZeroBitCount)
        return first != second ? first < second : left.lastHeard < right.lastHeard
    }
}

/// Keeps the clients that come first in an order, of any number that are added.
private struct BoundedSelection {
    let limit: Int
    private let precedes: (MemoryHolder, MemoryHolder) -> Bool
    /// At most twice the limit, in no order: the last half is dropped when it is full.
    private(set) var holders: [MemoryHolder] = []

    init(limit: Int, by precedes: @escaping (MemoryHolder, MemoryHolder) -> Bool) {
        precondition(limit > 0)
        self.limit = limit
        self.precedes = precedes
    }

    var isEmpty: Bool { holders.isEmpty }

    mutating func add(_ holder: MemoryHolder) {
        holders.append(holder)
        if holders.count >= 2 * limit { sort() }
    }

    /// The first of them that hold so many bytes together; all, where they do not.
    mutating func prefix(covering byteCount: Int) -> [MemoryHolder] {
        sort()
        var left = byteCount
        return Array(
            holders.prefix { holder in
                defer { left -= holder.byteCount }
                return left > 0
            })
    }

    private mutating func sort() {
        holders.sort(by: precedes)
        if holders.count > limit { holders.removeLast(holders.count - limit) }
    }
}
