import Synchronization

// Numbers that one thread adds to and that any thread may read. They are atomic so that a reader never sees
// half of one, but adding is a plain load and a plain store: no locked instruction, since only one thread
// writes. (On x86-64 and arm64 the compiler makes one `add` in memory of it, or a load, an addition and a
// store.)

// They are public, since only public functions are inlined into other modules.

/// A number that only grows. Added to by one thread at a time, read by any.
public struct Counter: ~Copyable, Sendable {
    @usableFromInline let cell = Atomic<UInt64>(0)

    @inlinable public init() {}

    /// Adds to the number; wraps around at 2^64. A few instructions.
    @inlinable @inline(__always)
    public borrowing func add(_ amount: UInt64 = 1) {
        cell.store(cell.load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }

    /// Adds a count; nothing for a negative one.
    @inlinable @inline(__always)
    public borrowing func add(_ amount: Int) { add(UInt64(bitPattern: Int64(max(0, amount)))) }

    public var value: UInt64 { cell.load(ordering: .relaxed) }
}

/// A number that goes up and down. Set by one thread at a time, read by any.
public struct Gauge: ~Copyable, Sendable {
    @usableFromInline let cell = Atomic<Int64>(0)

    @inlinable public init() {}

    @inlinable @inline(__always)
    public borrowing func set(_ value: Int) { cell.store(Int64(value), ordering: .relaxed) }

    /// Adds to the number, which wraps around.
    @inlinable @inline(__always)
    public borrowing func add(_ amount: Int) {
        cell.store(cell.load(ordering: .relaxed) &+ Int64(amount), ordering: .relaxed)
    }

    public var value: Int64 { cell.load(ordering: .relaxed) }
}

/// Counters for a fixed set of kinds: one counter for each case of an enum.
@safe
public struct CounterTable<Kind: CaseIterable & RawRepresentable<UInt8> & Sendable>: ~Copyable, Sendable {
    /// `count` counters; never changed, so every thread may use the pointer.
    @usableFromInline nonisolated(unsafe) let cells: UnsafeMutablePointer<Counter>
    @usableFromInline let count: Int

    /// - Precondition: The raw values of the cases are 0, 1, 2 … in their order.
    public init() {
        precondition(Kind.allCases.enumerated().allSatisfy { $0.offset == Int($0.element.rawValue) })
        count = Kind.allCases.count
        unsafe cells = .allocate(capacity: count)
        for index in 0..<count { unsafe (cells + index).initialize(to: Counter()) }
    }

    deinit {
        unsafe cells.deinitialize(count: count)
        unsafe cells.deallocate()
    }

    /// Adds to the counter of a kind.
    @inlinable @inline(__always)
    public borrowing func add(_ kind: Kind, _ amount: UInt64 = 1) {
        // In bounds: a raw value is less than the number of cases.
        unsafe cells[Int(kind.rawValue)].add(amount)
    }

    public borrowing func value(of kind: Kind) -> UInt64 { unsafe cells[Int(kind.rawValue)].value }
}
