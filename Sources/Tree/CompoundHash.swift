import PandoBytes

/// The hash of a mobile client's large cache: its leaves are divided into ranges, with one hash each
/// (realtime §9.6).
///
/// As the client sent it, not validated: ``Node/rangeMerges(against:)`` checks it.
package struct CompoundHash: Equatable, Sendable {
    /// The last leaf of each range, relative to the listen; `.priority` may be the final key. Ascending.
    package var paths: [Path]
    /// One more than `paths`: the last one is of the leaves behind the last path.
    package var hashes: [Text]

    package init(paths: [Path], hashes: [Text]) {
        self.paths = paths
        self.hashes = hashes
    }

    /// A value for content that cannot be used. Its counts do not match, so it is not the hash of an empty
    /// cache.
    package static let unusable = CompoundHash(paths: [], hashes: [])

    /// Most ranges. Clients make ranges of √(100 × size) bytes (§9.6): this many would be a cache of 2.6 TB.
    static let rangeLimit = 1 << 16

    /// Whether the counts match and the paths ascend: then every leaf of any tree is in exactly one range.
    var isUsable: Bool {
        guard hashes.count == paths.count + 1, hashes.count <= Self.rangeLimit else { return false }
        // One more key than a leaf may have: the final `.priority`.
        guard paths.allSatisfy({ $0.count <= Limits.pathDepth + 1 }) else { return false }
        return zip(paths, paths.dropFirst()).allSatisfy { $0 < $1 }
    }
}

extension CompoundHash {
    /// Reads `{"ps": [path …], "hs": [hash …]}`. Other members are skipped.
    ///
    /// Any other content gives ``unusable``, because the listen is valid without this hash.
    /// - Throws: ``MalformedJSON``.
    package init(reading reader: inout JSONReader) throws(MalformedJSON) {
        guard reader.peek() == UInt8(ascii: "{") else {
            _ = try reader.skipValue()
            self = .unusable
            return
        }
        var paths: [Text]?
        var hashes: [Text]?
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            switch name {
            case "ps": paths = try Self.readTexts(&reader)
            case "hs": hashes = try Self.readTexts(&reader)
            default: _ = try reader.skipValue()
            }
        }
        guard let paths, let hashes, hashes.count == paths.count + 1 else {
            self = .unusable
            return
        }
        self.init(paths: paths.map(Self.path), hashes: hashes)
    }

    /// An array of strings; nil for anything else, and for more than ``rangeLimit``.
    private static func readTexts(_ reader: inout JSONReader) throws(MalformedJSON) -> [Text]? {
        guard reader.peek() == UInt8(ascii: "[") else {
            _ = try reader.skipValue()
            return nil
        }
        var texts: [Text]? = []
        try reader.readArray { (reader) throws(MalformedJSON) in
            guard reader.peek() == UInt8(ascii: "\""), let count = texts?.count, count < rangeLimit else {
                texts = nil
                _ = try reader.skipValue()
                return
            }
            texts?.append(try reader.readString())
        }
        return texts
    }

    /// The path at the end of a range. Its keys are compared, never stored, so they need not be legal.
    private static func path(_ text: Text) -> Path {
        // A path that is deeper than any leaf is unusable: further keys need not be split.
        Path(
            text.string.utf8
                .split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2)
                .map { Key(unchecked: Text(String(Substring($0)))) })
    }
}

/// All leaves of one range of a listen, which replace those of the client in this range (realtime §9.7).
package struct RangeMerge: Equatable, Sendable {
    /// Exclusive; leaves below this path are in the range. nil for the beginning.
    package var start: Path?
    /// Inclusive; leaves below this path are not in the range. nil for the end.
    package var end: Path?
    /// Exactly the leaves of the range, relative to the listen.
    package var node: Node

    package init(start: Path?, end: Path?, node: Node) {
        self.start = start
        self.end = end
        self.node = node
    }
}

extension Key {
    /// The position of an object's priority among its children when leaves are enumerated (§9.6). Not a legal
    /// key.
    static let priority = Key(unchecked: ".priority")
}
