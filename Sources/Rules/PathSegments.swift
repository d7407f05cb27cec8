import PandoBytes
import PandoTree

/// The keys of a path that is computed at run time, one after the other: split on `/`, without empty segments
/// (rules §6). A segment that is no valid key names no node.
///
/// The text may be of any length, so nothing is allocated for segments behind the first invalid key.
struct PathSegments {
    private let text: Text
    /// The whole text is one segment, slashes included.
    private let isOneKey: Bool
    /// The number of bytes that were read.
    private(set) var offset = 0
    /// The number of keys that were returned.
    private(set) var count = 0
    /// The path names no node: it is too deep, the next key is too long, or the only one not legal.
    private(set) var isLost = false

    init(_ text: Text) {
        self.text = text
        isOneKey = false
    }

    /// The one key that a text is. A text that is no legal key names no node: otherwise the user `alice/`
    /// would be `alice` wherever rules look a user up by `child(auth.uid)`.
    init(oneKey text: Text) {
        self.text = text
        isOneKey = true
    }

    /// The next key. Nil at the end of the path, and when it ``isLost``.
    mutating func next() -> Key? {
        guard !isLost else { return nil }
        let range = nextRange(byteLimit: Limits.keyByteCount + 1)
        guard !range.isEmpty else { return nil }
        guard count < Limits.pathDepth, range.count <= Limits.keyByteCount, !isOneKey || Key.isLegal(text)
        else {
            offset = range.lowerBound
            isLost = true
            return nil
        }
        count += 1
        return text.withBytes { Key(unchecked: $0.extracting(range)) }
    }

    /// Reads the rest of a path that ``isLost``.
    /// - Returns: The number of its keys.
    /// - Complexity: O(bytes).
    mutating func skipRest() -> Int {
        var skipped = 0
        while !nextRange(byteLimit: .max).isEmpty { skipped += 1 }
        return skipped
    }

    /// The range of the next segment, or of its first `byteLimit` bytes. Moves `offset` behind it.
    private mutating func nextRange(byteLimit: Int) -> Range<Int> {
        let first = offset
        if isOneKey {
            offset = text.utf8Count
            return first..<offset
        }
        let range = text.withBytes { bytes -> Range<Int> in
            let slash = UInt8(ascii: "/")
            var start = first
            while start < bytes.count, bytes[start] == slash { start &+= 1 }
            var end = start
            while end < bytes.count, end &- start < byteLimit, bytes[end] != slash { end &+= 1 }
            return start..<end
        }
        offset = range.upperBound
        return range
    }
}
