import PandoTree

/// The simple hashes (realtime §9.1) of a few large locations. A hash stays until something at, above or
/// below its location changes.
///
/// To hash a million children takes over a second, and each transaction compares the hash of its location.
/// The hash is computed on another thread, on a snapshot, and stored here by the caller. While the cache is
/// empty, a change costs one comparison with zero.
struct HashCache: Sendable {
    /// Locations in the cache: those at which clients run transactions at the same time. Each is compared
    /// with the path of every change.
    static let capacity = 16

    private struct Entry: Sendable {
        var path: Path
        var hash: String
    }

    /// In the order in which they were stored.
    private var entries: [Entry] = []

    var isEmpty: Bool { entries.isEmpty }

    /// The hash of a location's value; nil when it is not known. The path may name a priority. O(capacity).
    subscript(path: Path) -> String? {
        entries.last { $0.path == path }?.hash
    }

    /// Stores the hash of a location's current value. In a full cache it replaces the oldest one.
    mutating func note(_ hash: String, of path: Path) {
        entries.removeAll { $0.path == path }
        if entries.count == Self.capacity { entries.removeFirst() }
        entries.append(Entry(path: path, hash: hash))
    }

    /// Removes the hashes that a change at this path makes wrong: those of the location, and of all locations
    /// above and below.
    mutating func invalidate(_ path: Path) {
        guard !entries.isEmpty else { return }
        let location = path.namesPriority ? path.parent : path
        entries.removeAll { $0.path.contains(location) || location.contains($0.path) }
    }

    /// Removes the hashes that these changes make wrong. O(1) for an empty cache.
    mutating func invalidate(_ changes: [Change]) {
        guard !entries.isEmpty else { return }
        for change in changes { invalidate(change.path) }
    }
}
