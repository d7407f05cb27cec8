import PandoEngine
import PandoTree
import Synchronization

// Which memory snapshots take. A reply to a large read holds the data as it was, until it is encoded or, over
// REST, until all of it is printed; a client decides when that is. As long as the tree has the same data,
// that takes no memory. What writes replace meanwhile does:
//
//     a large read waits     a SnapshotPin, known by its location             (SnapshotPins)
//                            all pins of the same data share a PinnedVersion
//     a large value is       it is, at both locations, a ReplacedValue of all versions that have it;
//     replaced               a worker weighs it
//     small values are       one ReplacedValue counts those of a location until it is read again: each with
//     replaced               the page that the write copies; a worker counts those of a write of many
//     the last pin is gone   they count no more
//
// Not noticed: the pages above that of a small value; all but the first versions of a location; and replies
// with what a session catches up with.
// Counted too much: what was written below a location after its snapshot, and replaced; and, for a REST read
// with the ends of a query, children that its response does not have.

/// Stands for the snapshot that one output holds: the output owns it.
package final class SnapshotPin: Sendable {
    private let version = Mutex<PinnedVersion?>(nil)

    package init() {}

    /// Bytes that all pins of the process keep, each value counted once.
    package static var liveByteCount: Int { ReplacedByteCounter.live.load(ordering: .relaxed) }

    /// Bytes that this pin keeps, alone or with others. O(1), with a limit.
    package var byteCount: Int { version.withLock { $0 }?.byteCount ?? 0 }

    /// The part of it that large values have.
    var valueByteCount: Int { version.withLock { $0 }?.valueByteCount ?? 0 }

    /// Whether its location is known, so that it counts what writes replace.
    var isPlaced: Bool { version.withLock { $0 } != nil }

    func hold(_ version: PinnedVersion) { self.version.withLock { $0 = version } }
}

/// The data of a location as it was between two writes. It lives as long as its pins.
final class PinnedVersion: Sendable {
    private struct Kept {
        /// Large values, and where they were.
        var values: [(path: Path, value: ReplacedValue)] = []
        /// Small ones of the location.
        var changes: [ReplacedChanges] = []
    }

    private let kept = Mutex(Kept())
    /// Values of one version that are counted, of each kind; a location above stands for those below it.
    private static let keptLimit = 64

    /// O(``keptLimit``).
    var byteCount: Int { kept.withLock { kept in Self.sum(kept.changes[...]) } + valueByteCount }

    /// The part of it that large values have.
    var valueByteCount: Int { kept.withLock { $0.values.reduce(0) { $0 + $1.value.byteCount } } }

    /// Whether a value of a location may be added: a snapshot has one of each.
    func mayKeep(at path: Path) -> Bool {
        kept.withLock { $0.values.count < Self.keptLimit && !$0.values.contains { $0.path.contains(path) } }
    }

    /// Whether a value that it keeps is at this location or above it: what is written there later is not its.
    func hasLost(_ path: Path) -> Bool {
        kept.withLock { $0.values.contains { $0.path.contains(path) } }
    }

    func keep(_ value: ReplacedValue, at path: Path) {
        kept.withLock { $0.values.append((path, value)) }
    }

    /// Where there are many, one of its own takes the place of the older half, which may then count twice.
    func keep(_ changes: ReplacedChanges) {
        kept.withLock { kept in
            if kept.changes.count >= Self.keptLimit {
                let older = kept.changes[..<(Self.keptLimit / 2)]
                let sum = ReplacedChanges(counting: Self.sum(older))
                kept.changes.replaceSubrange(older.indices, with: [sum])
            }
            kept.changes.append(changes)
        }
    }

    private static func sum(_ changes: ArraySlice<ReplacedChanges>) -> Int {
        changes.reduce(0) { $0 + $1.byteCount }
    }
}

/// A large value that a write has replaced, and that versions hold. Counts from when it is weighed until the
/// last of them is gone.
final class ReplacedValue: Sendable {
    private let counter = ReplacedByteCounter()

    var byteCount: Int { counter.byteCount }

    /// Counts the value's memory. Once. O(nodes).
    func weigh(_ node: Node) { counter.add(node.memoryByteCount) }
}

/// A replaced value on its way to the worker that weighs it (``MemoryReleaser``).
struct UnweighedValue: Sendable {
    let value: ReplacedValue
    let node: Node

    func weigh() { value.weigh(node) }
}

/// Bytes that are kept for as long as this object is.
final class ReplacedByteCounter: Sendable {
    fileprivate static let live = Atomic<Int>(0)
    private let counted = Atomic<Int>(0)

    var byteCount: Int { counted.load(ordering: .relaxed) }

    deinit { Self.live.subtract(byteCount, ordering: .relaxed) }

    func add(_ byteCount: Int) {
        counted.add(byteCount, ordering: .relaxed)
        Self.live.add(byteCount, ordering: .relaxed)
    }
}
