import PandoBytes

/// A location: the keys from the root down. The root is the empty path.
package struct Path: Hashable, Sendable {
    package var keys: [Key]

    package init(_ keys: [Key] = []) {
        self.keys = keys
    }

    /// The path without keys.
    package static let root = Path()

    /// How many keys.
    package var count: Int { keys.count }
    package var isRoot: Bool { keys.isEmpty }
    package subscript(depth: Int) -> Key { keys[depth] }

    /// The path of a child. O(count).
    package func appending(_ key: Key) -> Path { Path(keys + [key]) }
    package func appending(_ rest: some Sequence<Key>) -> Path { Path(keys + rest) }
    /// The path without its last key; the root for the root.
    package var parent: Path { Path(Array(keys.dropLast())) }

    /// Whether this is the last key.
    package func ends(with key: Key) -> Bool {
        !keys.isEmpty && keys[keys.count - 1] == key
    }

    /// Whether `other` is this path or below it.
    package func contains(_ other: Path) -> Bool {
        guard count <= other.count else { return false }
        // From the last key: siblings differ there.
        var depth = count
        while depth > 0 {
            depth &-= 1
            if keys[depth] != other.keys[depth] { return false }
        }
        return true
    }

    /// The keys of `other` behind those of this path. Traps unless this path ``contains(_:)`` it.
    package func relative(_ other: Path) -> Path {
        precondition(contains(other))
        return Path(Array(other.keys[count...]))
    }

    /// UTF-8 bytes of all keys. O(count).
    package var keyByteCount: Int {
        var byteCount = 0
        for index in keys.indices { byteCount &+= keys[index].utf8Count }
        return byteCount
    }

    /// Calls `body` with each location on the way from the root down to this one, until it gives false: with
    /// the number of its keys, and with its ``prefixHash``. Each key is hashed once: to look up every prefix
    /// in a table by paths hashes the first key once for each. O(bytes of the keys).
    package func forEachPrefixHash(_ body: (_ depth: Int, _ hash: Int) -> Bool) {
        var hasher = Hasher()
        for depth in 0...count {
            guard body(depth, hasher.finalize()), depth < count else { return }
            hasher.combine(keys[depth])
        }
    }

    /// A hash of the keys that goes on from that of the parent. O(bytes of the keys).
    package var prefixHash: Int {
        var hasher = Hasher()
        for index in keys.indices { hasher.combine(keys[index]) }
        return hasher.finalize()
    }

    /// How many keys both paths begin with. O(depth).
    package func sharedDepth(with other: Path) -> Int { zip(keys, other.keys).prefix { $0 == $1 }.count }

    /// `a/b`, as in pushes (realtime §5: no leading slash, the root is empty).
    package var wireText: String {
        keys.map(\.string).joined(separator: "/")
    }
}

extension Path: Comparable {
    /// Key by key; a path is before those below it (§9.6).
    package static func < (left: Path, right: Path) -> Bool { compare(left, right) < 0 }

    package static func compare(_ left: Path, _ right: Path) -> Int {
        for (a, b) in zip(left.keys, right.keys) {
            let order = Key.compare(a, b)
            if order != 0 { return order }
        }
        return left.count &- right.count
    }
}

extension Path: ExpressibleByStringLiteral, CustomStringConvertible {
    /// Splits a text that this program has made; keys are not checked.
    package init(trusted text: String) {
        self.init(
            text.utf8.split(separator: UInt8(ascii: "/")).map { Key(unchecked: Text(String(Substring($0)))) })
    }

    package init(stringLiteral value: String) {
        self.init(trusted: value)
    }
    package var description: String { "/" + wireText }
}

/// What a write sets: a node, or only its priority (a path that ends in `.priority`, §4.5).
package struct Target: Hashable, Sendable {
    /// The location of the node.
    package var path: Path
    /// Whether only the priority is set.
    package var isPriority: Bool

    package init(_ path: Path, isPriority: Bool = false) {
        self.path = path
        self.isPriority = isPriority
    }
}

extension Path {
    /// Parses a path of a client: split at `/`, without empty segments, not percent-encoded (§4.0).
    /// - Throws: ``InvalidData`` for an illegal key, a reserved segment, or a path over ``Limits/pathDepth``.
    package init(wire text: Text) throws(InvalidData) {
        let target = try Target(wire: text)
        guard !target.isPriority else { throw .reservedPath }
        self = target.path
    }
}

extension Target {
    /// As ``Path/init(wire:)``; the last segment may be `.priority`.
    /// - Throws: ``InvalidData``.
    package init(wire text: Text) throws(InvalidData) {
        var keys: [Key] = []
        var isPriority = false
        for segment in text.string.utf8.split(separator: UInt8(ascii: "/")) {
            guard !isPriority else { throw .reservedPath }
            let segment = Text(String(Substring(segment)))
            if segment.firstByte == UInt8(ascii: ".") {
                guard segment == ".priority" else {
                    throw keys.isEmpty && segment == ".info"
                        ? .reservedPath : .illegalKey(segment)
                }
                isPriority = true
                continue
            }
            keys.append(try Key(validating: segment))
            guard keys.count <= Limits.pathDepth else { throw .tooDeep }
        }
        path = Path(keys)
        self.isPriority = isPriority
    }
}
