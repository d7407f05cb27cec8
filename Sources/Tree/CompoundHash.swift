import PandoBytes

/// What a mobile client tells of a large cache: its leaves cut into ranges, one hash each (realtime
/// §9.6).
///
/// A claim from outside, not yet a sensible one: ``Node/rangeMerges(against:)`` looks before it believes.
package struct CompoundHash: Equatable, Sendable {
    /// The last leaf of each range, relative to the listen; `.priority` may be the final key. Ascending.
    package var paths: [Path]
    /// One more than paths; the last stands for the open range behind them.
    package var hashes: [Text]

    package init(paths: [Path], hashes: [Text]) {
        self.paths = paths
        self.hashes = hashes
    }

    /// A claim that says nothing. Its counts do not fit, so that nobody takes it for an empty cache.
    package static let unusable = CompoundHash(paths: [], hashes: [])

    /// Ranges in one claim. Clients make ranges of √(100 × size) bytes (§9.6): so many would be a cache of
    /// 2.6 TB.
    static let rangeLimit = 1 << 16

    /// True when the parts fit each other: then every leaf of any tree lies in exactly one range.
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
    /// Content of another shape is not refused: it gives a value that ``Node/rangeMerges(against:)`` calls
    /// unusable, because a listen with a strange hash is still a listen.
    /// - Throws: ``MalformedJSON`` only.
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

    /// An array of strings; nil for anything else, and for more than anybody's cache has.
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

    /// The path of a cut. Its keys are the client's own: they are compared, never stored, so any text will
    /// do.
    private static func path(_ text: Text) -> Path {
        // Deeper than any leaf is as unusable with one key too many as with a million.
        Path(
            text.string.utf8
                .split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2)
                .map { Key(unchecked: Text(String(Substring($0)))) })
    }
}

/// All leaves of one range of a listen, to take the place of what the client has there (realtime §9.7).
package struct RangeMerge: Equatable, Sendable {
    /// Exclusive, though what lies below it is inside; nil for the beginning.
    package var start: Path?
    /// Inclusive, though what lies below it is outside; nil for the end.
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
    /// Where an object's priority stands among its children when leaves are enumerated (§9.6). Not a legal
    /// key.
    static let priority = Key(unchecked: ".priority")
}
