import PandoTree

// Windows over large locations. To find the ten highest of a million children takes most of a second: a host
// has the window made on a snapshot before it runs the listen (``locationOfWindow(of:at:)``), hands it over,
// and what has changed since is caught up with here.

/// A window that was made before its listen is run.
struct PreparedWindow: Sendable {
    var path: Path
    var window: Window
}

extension Engine {
    /// Children up to which a window is made at once: some two milliseconds.
    package static let inlineWindowChildCount = 2048
    /// Entries that are compared to catch up with what has changed; beyond, the window is made anew.
    private static let differenceLimit = 4096
    /// Entries of a window that are moved for that, about: a few milliseconds.
    private static let movedEntryLimit = 4 << 20

    /// What a window has to be made over before a listen can begin; nil when that takes next to no time: the
    /// location has few children, the query needs few, or others listen through it already.
    package func locationOfWindow(of query: Query, at path: Path) -> Node? {
        let node = root[path]
        guard query.visits(moreThan: Self.inlineWindowChildCount, of: node),
            !listeners.hasWindow(of: query, at: path)
        else { return nil }
        return node
    }

    /// Takes a window that was made over a snapshot, for the listen that is run next.
    /// - Parameter node: The snapshot.
    /// - Returns: false when too much has changed since: then it has to be made anew.
    package mutating func prepare(_ window: Window, at path: Path, over node: Node) -> Bool {
        let current = root[path]
        var prepared = PreparedWindow(path: path, window: window)
        if !current.isSameSnapshot(as: node) {
            guard
                let differences = current.children.differences(
                    from: node.children, atMost: Self.differenceLimit),
                // Each moves what lies behind it in the window.
                differences.count * window.entries.count <= Self.movedEntryLimit
            else { return false }
            if !differences.isEmpty {
                _ = prepared.window.update(
                    differences.map { Window.ChildChange(key: $0.key, old: $0.old, new: $0.new) }, in: current
                )
            }
        }
        preparedWindow = prepared
        return true
    }

    /// The listen has been run, or refused: what was made for it is not used again.
    package mutating func discardPreparedWindow() { preparedWindow = nil }
}
