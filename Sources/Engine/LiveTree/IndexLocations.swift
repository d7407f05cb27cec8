import PandoTree

/// The locations of a database that have indexes: a trie.
///
/// Always true: a location in it has an index, or some location below it has; except for the root.
struct IndexLocations {
    let root = IndexLocation(path: .root)
    /// Without the root.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 && root.slots.isEmpty }

    /// O(depth).
    subscript(path: Path) -> IndexLocation? {
        var location = root
        for key in path.keys {
            guard let next = location.children[key] else { return nil }
            location = next
        }
        return location
    }

    /// The location at a path, made where there was none: it gets an index. O(depth).
    mutating func make(at path: Path) -> IndexLocation {
        var location = root
        for (depth, key) in path.keys.enumerated() {
            if let next = location.children[key] {
                location = next
            } else {
                let next = IndexLocation(path: Path(Array(path.keys[...depth])))
                location.children[key] = next
                location = next
                count += 1
            }
        }
        return location
    }

    /// Visits all locations, each before those below it. O(locations).
    func forEach(_ visit: (IndexLocation) -> Void) { Self.forEach(from: root, visit) }

    /// Recursion no deeper than ``Limits/pathDepth``, here and below.
    private static func forEach(from location: IndexLocation, _ visit: (IndexLocation) -> Void) {
        visit(location)
        for child in location.children.values { forEach(from: child, visit) }
    }

    /// Removes the locations that have no index, nor any below them. O(locations).
    mutating func removeEmpty() { removeEmpty(below: root) }

    private mutating func removeEmpty(below location: IndexLocation) {
        for (key, child) in location.children {
            removeEmpty(below: child)
            guard child.isEmpty else { continue }
            location.children[key] = nil
            count -= 1
        }
    }

    /// The same, for those on the way to a path. O(depth).
    mutating func removeEmpty(onTheWayTo path: Path) {
        var way = [root]
        for key in path.keys {
            guard let next = way[way.count - 1].children[key] else { break }
            way.append(next)
        }
        while way.count > 1, let last = way.popLast(), last.isEmpty {
            way[way.count - 1].children[path[way.count - 1]] = nil
            count -= 1
        }
    }

    /// The index on demand that was not used for the longest time: its number, and when it was used.
    /// O(locations).
    /// - Parameter number: One that does not count; nil for none.
    func leastRecentlyUsed(butNot number: Int? = nil) -> (number: Int, lastUse: Int64)? {
        var oldest: (number: Int, lastUse: Int64)?
        forEach { location in
            for slot in location.slots where !slot.isDeclared && slot.number != number {
                if let oldest, (oldest.lastUse, oldest.number) < (slot.lastUse, slot.number) { continue }
                oldest = (slot.number, slot.lastUse)
            }
        }
        return oldest
    }
}

/// One location of the trie.
final class IndexLocation {
    let path: Path
    var children: [Key: IndexLocation] = [:]
    var slots: [IndexSlot] = []
    /// Whether the write in progress changes its children.
    var isTouched = false

    init(path: Path) {
        self.path = path
    }

    var isEmpty: Bool { slots.isEmpty && children.isEmpty }

    /// The place of an index among the slots.
    func slot(_ order: ChildOrder, measuring measure: ChildOrder?) -> Int? {
        slots.firstIndex { $0.order == order && $0.measure == measure }
    }
}

/// One index of a location, ready or being built.
struct IndexSlot {
    let order: ChildOrder
    /// The field whose numbers it summarises, for aggregates; nil for none.
    let measure: ChildOrder?
    /// Distinguishes it from an earlier one of the same order.
    let number: Int
    /// Whether the rules declare it.
    let isDeclared: Bool
    /// Nil while it is not ready.
    var index: KeptIndex?
    /// Bytes of the slot and of the trie's nodes on its way, at most.
    let overheadByteCount: Int
    /// Bytes that count against the limit (``IndexAccounts``): none of a declared one. At least as many as
    /// the index takes, and ``overheadByteCount``.
    var chargedByteCount = 0
    /// Entries that were added or removed since its bytes were counted.
    var uncountedChangeCount = 0
    /// When a query used it last: milliseconds since 1970.
    var lastUse: Int64
    /// The children that the write in progress is about to change, with their values before it; nil for none.
    var olds: [(key: Key, value: Node?, number: Node)] = []
}
