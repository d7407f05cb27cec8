import PandoBytes
import PandoTree

/// The keys of a path that is put together at run time, one after the other: split on `/`, empty segments
/// dropped (rules §6). What cannot be a key names nothing.
///
/// The text may be as long as a text can be, so nothing is made of what lies behind the first key that cannot
/// lead anywhere.
struct PathSegments {
    private let text: Text
    /// Bytes that have been walked over.
    private(set) var offset = 0
    /// Keys that have been given.
    private(set) var count = 0
    /// The path goes on, but to nothing: it is too deep, or the next key too long.
    private(set) var isLost = false

    init(_ text: Text) {
        self.text = text
    }

    /// Nil at the end of the path, and where it is lost.
    mutating func next() -> Key? {
        guard !isLost else { return nil }
        let range = nextRange(byteLimit: Limits.keyByteCount + 1)
        guard !range.isEmpty else { return nil }
        guard count < Limits.pathDepth, range.count <= Limits.keyByteCount else {
            offset = range.lowerBound
            isLost = true
            return nil
        }
        count += 1
        return text.withBytes { Key(unchecked: $0.extracting(range)) }
    }

    /// How many keys are left of a path that is lost; nothing is left afterwards. O(bytes).
    mutating func skipRest() -> Int {
        var skipped = 0
        while !nextRange(byteLimit: .max).isEmpty { skipped += 1 }
        return skipped
    }

    /// The next segment, or as many of its bytes; `offset` moves behind them.
    private mutating func nextRange(byteLimit: Int) -> Range<Int> {
        let first = offset
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
