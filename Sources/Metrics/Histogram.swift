import Synchronization

/// How often values fell into ranges, and their sum. Added to by one thread at a time, read by any.
///
/// Values are whole numbers in a small unit (nanoseconds, bytes, entries); the exposition scales them to base
/// units.
@safe
public struct Histogram: ~Copyable, Sendable {
    /// The upper bounds of the ranges, ascending; values above the last are counted beside them. The pointer
    /// never changes: an array would be retained for each value.
    @usableFromInline nonisolated(unsafe) let bounds: UnsafeMutablePointer<UInt64>
    @usableFromInline let boundCount: Int
    /// How many of the values' unit one base unit has: 1 000 000 000 where nanoseconds are shown as seconds.
    public let unitsPerBase: Double
    /// A counter for each bound, and one for what is above all of them. The pointer never changes.
    @usableFromInline nonisolated(unsafe) let cells: UnsafeMutablePointer<Counter>
    @usableFromInline let sum = Counter()

    /// - Precondition: `bounds` ascends and is not empty; `unitsPerBase` is positive.
    public init(bounds: [UInt64], unitsPerBase: Double = 1) {
        precondition(!bounds.isEmpty && zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 })
        precondition(unitsPerBase > 0)
        boundCount = bounds.count
        self.unitsPerBase = unitsPerBase
        unsafe self.bounds = .allocate(capacity: bounds.count)
        for (index, bound) in bounds.enumerated() { unsafe (self.bounds + index).initialize(to: bound) }
        unsafe cells = .allocate(capacity: bounds.count + 1)
        for index in 0...bounds.count { unsafe (cells + index).initialize(to: Counter()) }
    }

    deinit {
        unsafe bounds.deinitialize(count: boundCount)
        unsafe bounds.deallocate()
        unsafe cells.deinitialize(count: boundCount + 1)
        unsafe cells.deallocate()
    }

    /// Durations in nanoseconds, shown as seconds: from 50 µs to 10 s, which is what a sync of a disk, a tick
    /// of a loop and the time until a reply take, from good to very bad.
    public static var durations: Histogram {
        Histogram(
            bounds: [
                50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000,
                50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000,
                10_000_000_000,
            ], unitsPerBase: 1e9)
    }

    /// How many: 1 to 16384, in powers of four.
    public static var counts: Histogram { Histogram(bounds: (0...7).map { 1 << (2 * $0) }) }

    /// Bytes: 256 to 16 MiB, in powers of four.
    public static var bytes: Histogram { Histogram(bounds: (4...12).map { 1 << (2 * $0) }) }

    /// Adds values.
    /// - Parameter count: How many times `value` is added.
    /// - Complexity: O(bounds).
    @inlinable @inline(__always)
    public borrowing func observe(_ value: UInt64, count: UInt64 = 1) {
        guard count > 0 else { return }
        var index = 0
        while unsafe index < boundCount && bounds[index] < value { index += 1 }
        // In bounds: there is a counter more than there are bounds.
        unsafe cells[index].add(count)
        sum.add(value &* count)
    }

    /// The numbers as they are now. A value that is added meanwhile may be counted and not yet be in the sum.
    public var snapshot: HistogramSnapshot {
        var cumulative: UInt64 = 0
        var counts: [UInt64] = []
        counts.reserveCapacity(boundCount + 1)
        for index in 0...boundCount {
            unsafe cumulative &+= cells[index].value
            counts.append(cumulative)
        }
        return HistogramSnapshot(
            bounds: (0..<boundCount).map { unsafe Double(bounds[$0]) / unitsPerBase },
            cumulativeCounts: counts,
            sum: Double(sum.value) / unitsPerBase)
    }
}

/// The numbers of a histogram at one time, in base units.
public struct HistogramSnapshot: Equatable, Sendable {
    public var bounds: [Double]
    /// For each bound, how many values were not above it; then, how many there were.
    public var cumulativeCounts: [UInt64]
    public var sum: Double

    public init(bounds: [Double], cumulativeCounts: [UInt64], sum: Double) {
        precondition(cumulativeCounts.count == bounds.count + 1)
        self.bounds = bounds
        self.cumulativeCounts = cumulativeCounts
        self.sum = sum
    }

    /// The sum of several histograms with the same bounds.
    public static func + (left: Self, right: Self) -> Self {
        precondition(left.bounds == right.bounds)
        return HistogramSnapshot(
            bounds: left.bounds, cumulativeCounts: zip(left.cumulativeCounts, right.cumulativeCounts).map(&+),
            sum: left.sum + right.sum)
    }
}
