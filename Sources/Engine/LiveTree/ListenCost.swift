import PandoTree

/// What a listen costs, about: bytes of the heap with what the allocator adds. Each listen counts its whole
/// path, although listens share the nodes of what their paths have in common: what a session holds must not
/// become less because another one that shared it has ended.
enum ListenCost {
    /// Of a listen: its place in the tables of its session and of its location.
    private static let listenByteCount = 256
    /// Of each key: its node in the trie, and its place in the path and among its siblings.
    private static let keyByteCount = 128
    /// Keys up to this many bytes are a part of their node.
    private static let shortKeyByteCount = 15
    /// Of a view: its window, its recipients, its place among the others.
    private static let viewByteCount = 768
    /// Of each child of a window.
    static let windowEntryByteCount = 48

    /// Bytes of a default listen. O(depth).
    static func bytes(at path: Path) -> Int {
        var byteCount = listenByteCount + path.count * keyByteCount
        for key in path.keys where key.utf8Count > shortKeyByteCount { byteCount += key.utf8Count }
        return byteCount
    }

    /// Bytes of a filtered listen without its window's children. O(depth + size of the query).
    static func bytes(at path: Path, _ query: Query) -> Int {
        bytes(at: path) + viewByteCount + query.byteCount
    }

    /// Bytes of a listen without its window's children. O(depth + size of the query).
    static func bytes(of listen: Listen) -> Int {
        if let query = listen.query { bytes(at: listen.path, query) } else { bytes(at: listen.path) }
    }

    /// Bytes of keys that take about as long to hash or to compare as a listen at a short path takes at all.
    private static let visitedKeyByteCount = 128

    /// About how much there is to do to find a listen and what is above it, in listens at short paths: a path
    /// may have 24 KiB of keys (``Limits/pathDepth``, ``Limits/keyByteCount``). O(depth).
    static func visits(at path: Path) -> Int { 1 + path.keyByteCount / visitedKeyByteCount }

    /// The same for so many bytes of keys.
    static func visits(ofKeyBytes byteCount: Int) -> Int { byteCount / visitedKeyByteCount }

    /// To take a window out of those of its location (``WindowFinder``) takes as long as to visit so many
    /// nodes of the trie: some microseconds.
    private static let viewWork = 8

    /// About how much there is to do to end a default listen, in nodes of the trie. O(1).
    static func work(at path: Path) -> Int { path.count + 1 }

    /// The same for a filtered listen. O(1).
    static func work(ofFilteredAt path: Path) -> Int { work(at: path) + viewWork }
}
