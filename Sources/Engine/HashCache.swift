import PandoTree

/// The simple hashes (realtime §9.1) of a few large locations, kept until something at, above or below
/// them changes.
///
/// To hash a million children takes over a second, and a transaction compares the hash of its location each
/// time. A hash is computed elsewhere, on a snapshot, and noted here by the host; every change drops what it
/// makes untrue. While nothing is noted, a change pays for one comparison with zero.
struct HashCache: Sendable {
    /// Locations whose hash is kept: those at which clients run transactions at the same time, and each is
    /// compared with the path of every change.
    static let capacity = 16

    private struct Entry: Sendable {
        var path: Path
        var hash: String
    }

    /// The one that was noted last stands last.
    private var entries: [Entry] = []

    var isEmpty: Bool { entries.isEmpty }

    /// The hash of what a location holds; nil when it is not known. A path may end in a priority's
    /// pseudo-key.
    subscript(path: Path) -> String? {
        entries.last { $0.path == path }?.hash
    }

    /// Notes the hash of what a location holds now, in place of the one that was noted first.
    mutating func note(_ hash: String, of path: Path) {
        entries.removeAll { $0.path == path }
        if entries.count == Self.capacity { entries.removeFirst() }
        entries.append(Entry(path: path, hash: hash))
    }

    /// Drops the hashes that a change at this path makes untrue: those of the location, of all above and of
    /// all below.
    mutating func invalidate(_ path: Path) {
        guard !entries.isEmpty else { return }
        let place = path.namesPriority ? path.parent : path
        entries.removeAll { $0.path.contains(place) || place.contains($0.path) }
    }
}
