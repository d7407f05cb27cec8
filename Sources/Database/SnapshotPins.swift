import PandoEngine
import PandoTree
import Synchronization

// Which memory snapshots take. A reply to a large read holds the data as it was, until it is encoded or, over
// REST, until all of it is printed; a client decides when that is. As long as the tree has the same data,
// that takes no memory. What writes replace meanwhile does:
//
//     a large read waits     a SnapshotPin, known by its location             (SnapshotPins)
//     a write replaces       the old value at both locations is a ReplacedValue of all pins that hold it
//     a worker               weighs it: from now on it counts in SnapshotPin.liveByteCount
//     the last pin is gone   it counts no more
//
// Not noticed: small values that writes replace one by one, all but the first locations of a write of many,
// all but the first pins of a location, and replies with a limit or with what a session catches up with.
// Counted too much: what was written below a location after its snapshot, and replaced; and, for a REST read
// with the ends of a query, children that its response does not have.

/// Stands for the snapshot that one output holds: the output owns it.
package final class SnapshotPin: Sendable {
    /// What it keeps, and where that was.
    private let kept = Mutex<[(path: Path, value: ReplacedValue)]>([])
    /// Values of one pin that are counted; a location above stands for those below it.
    private static let keptLimit = 64

    package init() {}

    /// Bytes that all pins of the process keep, each value counted once.
    package static var liveByteCount: Int { ReplacedValue.live.load(ordering: .relaxed) }

    /// Bytes that this pin keeps, alone or with others. O(``keptLimit``).
    package var byteCount: Int { kept.withLock { $0.reduce(0) { $0 + $1.value.byteCount } } }

    /// Whether a value of a location may be added: a snapshot has one of each.
    fileprivate func mayKeep(at path: Path) -> Bool {
        kept.withLock { $0.count < Self.keptLimit && !$0.contains { $0.path.contains(path) } }
    }

    fileprivate func keep(_ value: ReplacedValue, at path: Path) {
        kept.withLock { $0.append((path, value)) }
    }
}

/// A value that a write has replaced, and that pins hold. Counts from when it is weighed until the last of
/// them is gone.
final class ReplacedValue: Sendable {
    fileprivate static let live = Atomic<Int>(0)
    private let weighed = Atomic<Int>(0)

    var byteCount: Int { weighed.load(ordering: .relaxed) }

    deinit { Self.live.subtract(byteCount, ordering: .relaxed) }

    /// Counts the value's memory. Once. O(nodes).
    func weigh(_ node: Node) {
        let byteCount = node.memoryByteCount
        weighed.store(byteCount, ordering: .relaxed)
        Self.live.add(byteCount, ordering: .relaxed)
    }
}

/// A replaced value on its way to the worker that weighs it (``MemoryReleaser``).
struct UnweighedValue: Sendable {
    let value: ReplacedValue
    let node: Node

    func weigh() { value.weigh(node) }
}

/// The pins of all databases, by location. Used by one thread at a time.
struct SnapshotPins {
    private struct WeakPin {
        weak var pin: SnapshotPin?
    }

    /// The pins of one database.
    private struct Places {
        /// In ascending order, so that those below a location are neighbours.
        var paths: [Path] = []
        var pins: [Path: [WeakPin]] = [:]
        /// Pins that were added, and writes, since those that are gone were removed; and pins that were left
        /// then.
        var addedCount = 0
        var writeCount = 0
        var leftCount = 0
    }

    private var databases: [UInt32: Places] = [:]
    /// Added pins, or writes, after which those that are gone are removed, and as many again as are left: a
    /// write does more while there are pins.
    private static let sweptCount = 16
    /// Pins of one location: further ones are not noticed. A write there looks at each, in about 100 ns.
    private static let pinLimit = 256
    /// Values that print to fewer bytes do not count.
    private static let leastByteCount = 16 << 10

    /// Whether a database has any. Every write asks.
    func hasPins(of database: UInt32) -> Bool { !databases.isEmpty && databases[database] != nil }

    /// An output holds the data of a location as it is now. O(log n), and O(n) to move in memory.
    mutating func add(_ pin: SnapshotPin, at path: Path, in database: UInt32) {
        var places = databases.removeValue(forKey: database) ?? Places()
        if places.pins[path] == nil {
            places.paths.insert(path, at: Self.position(of: path, in: places.paths))
        }
        if places.pins[path, default: []].count < Self.pinLimit {
            places.pins[path, default: []].append(WeakPin(pin: pin))
        }
        places.addedCount += 1
        if places.addedCount > Self.sweptCount + places.leftCount { Self.removeGone(from: &places) }
        databases[database] = places
    }

    /// After a write: has the pins hold what it has replaced.
    /// - Parameters:
    ///   - paths: The locations that it has changed.
    ///   - root: The data before it.
    /// - Returns: What a worker is to weigh.
    /// - Complexity: O(paths × depth + pins above and below them).
    mutating func note(_ paths: [Path], replacing root: Node, in database: UInt32) -> [UnweighedValue] {
        guard var places = databases.removeValue(forKey: database) else { return [] }
        var found: [UnweighedValue] = []
        for path in paths { Self.note(path, root, &places, &found) }
        places.writeCount += 1
        if places.writeCount > Self.sweptCount + places.leftCount { Self.removeGone(from: &places) }
        if !places.paths.isEmpty { databases[database] = places }
        return found
    }

    private static func note(
        _ path: Path, _ root: Node, _ places: inout Places, _ found: inout [UnweighedValue]
    ) {
        // Pins above hold the old value of the location.
        for depth in 0..<path.count {
            guard let pins = places.pins[Path(Array(path.keys[..<depth]))] else { continue }
            keep(root[path], at: path, by: pins, &found)
        }
        // Those at it and below hold their own data, and have lost all of it.
        let first = position(of: path, in: places.paths)
        var end = first
        while end < places.paths.count, path.contains(places.paths[end]) {
            let lost = places.paths[end]
            keep(root[lost], at: lost, by: places.pins.removeValue(forKey: lost) ?? [], &found)
            end += 1
        }
        places.paths.removeSubrange(first..<end)
    }

    private static func keep(
        _ node: Node, at path: Path, by pins: [WeakPin], _ found: inout [UnweighedValue]
    ) {
        guard node.isHeavier(than: leastByteCount) else { return }
        let holders = pins.compactMap(\.pin).filter { $0.mayKeep(at: path) }
        guard !holders.isEmpty else { return }
        let value = ReplacedValue()
        for holder in holders { holder.keep(value, at: path) }
        found.append(UnweighedValue(value: value, node: node))
    }

    /// The index of a path, or where it is to be inserted. O(log n).
    private static func position(of path: Path, in paths: [Path]) -> Int {
        var (low, high) = (0, paths.count)
        while low < high {
            let middle = (low + high) / 2
            if paths[middle] < path { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private static func removeGone(from places: inout Places) {
        for path in places.paths { places.pins[path]?.removeAll { $0.pin == nil } }
        places.paths.removeAll { places.pins[$0]?.isEmpty ?? true }
        places.pins = places.pins.filter { !$0.value.isEmpty }
        places.leftCount = places.pins.values.reduce(0) { $0 + $1.count }
        (places.addedCount, places.writeCount) = (0, 0)
    }
}
