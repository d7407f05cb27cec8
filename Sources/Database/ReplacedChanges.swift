import PandoEngine
import PandoTree
import Synchronization

/// Small values below a location that writes have replaced since a version of it began, and that the versions
/// before hold: each location once, with the page that its write copies.
final class ReplacedChanges: Sendable {
    private let counter = ReplacedByteCounter()
    private let seen = Mutex(SeenLocations())
    /// Bytes of a page that a write copies while a snapshot has it: 32 entries, or fewer.
    private static let pageByteCount = 1072

    init(counting byteCount: Int = 0) { counter.add(byteCount) }

    var byteCount: Int { counter.byteCount }

    /// A write has changed a location. O(nodes of its value).
    func note(_ path: Path, in root: Node) {
        let byteCount = newByteCount(at: path, in: root)
        if byteCount > 0 { counter.add(byteCount) }
    }

    /// A write has changed many: all of them together are at most what is at the location. One worker only.
    func note(_ sum: Int, atMost byteCount: Int) {
        let added = min(sum, byteCount - self.byteCount)
        if added > 0 { counter.add(added) }
    }

    /// Bytes of memory that versions keep since the write of a location: its value, and a page of its parent;
    /// 0 where it was changed before. O(nodes of the value).
    func newByteCount(at path: Path, in root: Node) -> Int {
        let (isNew, growth) = seen.withLock { seen in
            let before = seen.byteCount
            return (seen.insert(path), seen.byteCount - before)
        }
        guard isNew else { return growth }
        return growth + root[path].memoryByteCount
            + min(Self.pageByteCount, root[path.parent].children.entryByteCount)
    }
}

/// A write of many locations that snapshots have, on its way to the worker that counts what it has replaced
/// (``MemoryReleaser``).
struct UnweighedChanges: Sendable {
    /// By the location of snapshots.
    let places: [Path: ReplacedChanges]
    /// The data before the write.
    let root: Node
    let changes: [Change]

    /// Counts what was replaced at each location and below it. O(changes × depth + nodes).
    func weigh() {
        var sums: [Path: Int] = [:]
        let paths = places.keys.sorted()
        for change in changes where !change.path.namesPriority {
            for depth in 0..<change.path.count {
                let above = Path(Array(change.path.keys[..<depth]))
                guard let place = places[above] else { continue }
                sums[above, default: 0] += place.newByteCount(at: change.path, in: root)
            }
            var index = SnapshotPins.position(of: change.path, in: paths)
            while index < paths.count, change.path.contains(paths[index]) {
                sums[paths[index]] = .max / 2
                index += 1
            }
        }
        for (path, sum) in sums { places[path]?.note(sum, atMost: root[path].memoryByteCount) }
    }
}
