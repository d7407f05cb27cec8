import PandoEngine
import PandoTree

/// The pins of all databases, by location. Used by one thread at a time.
struct SnapshotPins {
    private struct Weak<Object: AnyObject> {
        weak var object: Object?
    }

    /// A location of which there are snapshots.
    private struct Place {
        /// The oldest first.
        var versions: [Weak<PinnedVersion>] = []
        /// Nothing has changed since the last version began: further pins hold the same.
        var isCurrent = false
        /// What counts the small values that were replaced since the last version began.
        var changes = Weak<ReplacedChanges>()
    }

    /// The places of one database.
    private struct Places {
        /// In ascending order, so that those below a location are neighbours.
        var paths: [Path] = []
        var places: [Path: Place] = [:]
        /// Pins that were added, and writes, since those that are gone were removed; and versions that were
        /// left then.
        var addedCount = 0
        var writeCount = 0
        var leftCount = 0
    }

    private var databases: [UInt32: Places] = [:]
    /// Added pins, or writes, after which those that are gone are removed, and as many again as are left: a
    /// write does more while there are pins.
    private static let sweptCount = 16
    /// Versions of one location: further ones are not noticed. A write there looks at each, in about 100 ns.
    private static let versionLimit = 256
    /// Values that print to fewer bytes are small.
    private static let leastByteCount = 16 << 10

    /// Whether a database has any. Every write asks.
    func hasPins(of database: UInt32) -> Bool { !databases.isEmpty && databases[database] != nil }

    /// An output holds the data of a location as it is now. O(log n), and O(n) to move in memory.
    mutating func add(_ pin: SnapshotPin, at path: Path, in database: UInt32) {
        var places = databases.removeValue(forKey: database) ?? Places()
        if places.places[path] == nil {
            places.paths.insert(path, at: Self.position(of: path, in: places.paths))
        }
        Self.add(pin, to: &places.places[path, default: Place()])
        places.addedCount += 1
        if places.addedCount > Self.sweptCount + places.leftCount { Self.removeGone(from: &places) }
        databases[database] = places
    }

    private static func add(_ pin: SnapshotPin, to place: inout Place) {
        if place.isCurrent, let version = place.versions.last?.object { return pin.hold(version) }
        if place.versions.count >= versionLimit { place.versions.removeAll { $0.object == nil } }
        guard place.versions.count < versionLimit else { return }
        let version = PinnedVersion()
        pin.hold(version)
        place.versions.append(Weak(object: version))
        place.isCurrent = true
        place.changes.object = nil
    }

    /// After a write: has the versions hold what it has replaced.
    /// - Parameters:
    ///   - paths: The locations that it has changed.
    ///   - root: The data before it.
    /// - Returns: What a worker is to weigh.
    /// - Complexity: O(paths × depth + versions above and below them).
    mutating func note(_ paths: [Path], replacing root: Node, in database: UInt32) -> [UnweighedValue] {
        guard var places = databases.removeValue(forKey: database) else { return [] }
        var found: [UnweighedValue] = []
        for path in paths { Self.note(path, root, &places, &found) }
        Self.endWrite(&places)
        if !places.paths.isEmpty { databases[database] = places }
        return found
    }

    /// The same of a write of many locations.
    /// - Parameter base: The location above all of them.
    /// - Returns: What a worker is to weigh; nil where nothing is.
    /// - Complexity: O(depth + versions above and below the base).
    mutating func note(
        _ changes: [Change], below base: Path, replacing root: Node, in database: UInt32
    ) -> UnweighedChanges? {
        guard var places = databases.removeValue(forKey: database) else { return nil }
        var found: [Path: ReplacedChanges] = [:]
        for depth in 0..<base.count {
            let path = Path(Array(base.keys[..<depth]))
            if places.places[path] != nil { found[path] = Self.changes(at: path, &places) }
        }
        var index = Self.position(of: base, in: places.paths)
        while index < places.paths.count, base.contains(places.paths[index]) {
            let path = places.paths[index]
            found[path] = Self.changes(at: path, &places)
            index += 1
        }
        Self.endWrite(&places)
        if !places.paths.isEmpty { databases[database] = places }
        return found.isEmpty ? nil : UnweighedChanges(places: found, root: root, changes: changes)
    }

    private static func endWrite(_ places: inout Places) {
        places.writeCount += 1
        if places.writeCount > sweptCount + places.leftCount { removeGone(from: &places) }
    }

    private static func note(
        _ path: Path, _ root: Node, _ places: inout Places, _ found: inout [UnweighedValue]
    ) {
        // Versions above hold the old value of the location.
        for depth in 0..<path.count {
            let above = Path(Array(path.keys[..<depth]))
            guard let versions = places.places[above]?.versions else { continue }
            let node = root[path]
            if node.isHeavier(than: leastByteCount) {
                places.places[above]?.isCurrent = false
                keep(node, at: path, by: versions, &found)
            } else {
                let changes = changes(at: above, &places)
                if versions.contains(where: { $0.object?.hasLost(path) == false }) {
                    changes?.note(path, in: root)
                }
            }
        }
        // Those at it and below hold their own data, and have lost all of it.
        let first = position(of: path, in: places.paths)
        var end = first
        while end < places.paths.count, path.contains(places.paths[end]) {
            let lost = places.paths[end]
            keep(root[lost], at: lost, by: places.places.removeValue(forKey: lost)?.versions ?? [], &found)
            end += 1
        }
        places.paths.removeSubrange(first..<end)
    }

    private static func keep(
        _ node: Node, at path: Path, by versions: [Weak<PinnedVersion>], _ found: inout [UnweighedValue]
    ) {
        guard node.isHeavier(than: leastByteCount) else { return }
        let holders = versions.compactMap(\.object).filter { $0.mayKeep(at: path) }
        guard !holders.isEmpty else { return }
        let value = ReplacedValue()
        for holder in holders { holder.keep(value, at: path) }
        found.append(UnweighedValue(value: value, node: node))
    }

    /// What counts the changes below a location for all its versions; nil where they are gone.
    private static func changes(at path: Path, _ places: inout Places) -> ReplacedChanges? {
        places.places[path]?.isCurrent = false
        if let changes = places.places[path]?.changes.object { return changes }
        let holders = places.places[path]?.versions.compactMap(\.object) ?? []
        guard !holders.isEmpty else { return nil }
        let changes = ReplacedChanges()
        for holder in holders { holder.keep(changes) }
        places.places[path]?.changes.object = changes
        return changes
    }

    /// The index of a path, or where it is to be inserted. O(log n).
    static func position(of path: Path, in paths: [Path]) -> Int {
        var (low, high) = (0, paths.count)
        while low < high {
            let middle = (low + high) / 2
            if paths[middle] < path { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private static func removeGone(from places: inout Places) {
        for path in places.paths { places.places[path]?.versions.removeAll { $0.object == nil } }
        places.paths.removeAll { places.places[$0]?.versions.isEmpty ?? true }
        places.places = places.places.filter { !$0.value.versions.isEmpty }
        places.leftCount = places.places.values.reduce(0) { $0 + $1.versions.count }
        (places.addedCount, places.writeCount) = (0, 0)
    }
}
