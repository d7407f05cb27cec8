import PandoBytes
import PandoTree

// Paths straight from the message's bytes: no text of the whole, no array of segments; one allocation for the
// keys and one for each key that has its bytes on the heap. What is accepted, and what is said of the rest,
// is as in ``Target/init(wire:)``.

/// Gathers the segments of one path.
private struct PathBuilder {
    var keys: [Key]
    var isPriority = false
    var problem: InvalidData?

    init(below base: Path) {
        keys = base.keys
    }

    /// Takes the next segment; empty ones do not count (realtime §4.0).
    mutating func append(_ segment: Text) {
        guard segment.utf8Count > 0, problem == nil else { return }
        guard !isPriority else { return problem = .reservedPath }
        if segment.firstByte == UInt8(ascii: ".") {
            switch segment {
            case ".priority": isPriority = true
            case ".info" where keys.isEmpty: problem = .reservedPath
            default: problem = .key(String(segment.string.prefix(64)))
            }
            return
        }
        do {
            keys.append(try Key(validating: segment))
            if keys.count > Limits.pathDepth { problem = .tooDeep }
        } catch {
            problem = error
        }
    }

    var field: Field<Target> {
        if let problem { return .invalid(problem) }
        return .value(Target(Path(keys), isPriority: isPriority))
    }
}

extension MessageParser {
    /// Reads a path that names a node.
    mutating func readPath() throws(MalformedJSON) -> Field<Path> {
        switch try readTarget(below: Path()) {
        case .value(let target): target.isPriority ? .invalid(.reservedPath) : .value(target.path)
        case .absent: .absent
        case .wrongType: .wrongType
        case .invalid(let problem): .invalid(problem)
        }
    }

    /// Reads a path that may end in `.priority`, relative to `base`; what it gives is absolute.
    mutating func readTarget(below base: Path) throws(MalformedJSON) -> Field<Target> {
        guard peek() == UInt8(ascii: "\"") else {
            try skip()
            return .wrongType
        }
        if let plain = readPlainTarget(below: base) { return plain }
        let text = try field { (parser) throws(MalformedJSON) in try parser.drafts.reader.readString() }
        guard case .value(let path) = text else {
            if case .invalid(let problem) = text { return .invalid(problem) }
            return .wrongType
        }
        var builder = PathBuilder(below: base)
        // No path that is accepted has more than 33 segments, and a longer one is refused before the rest is
        // met.
        for segment in path.string.utf8.split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2) {
            builder.append(Text(String(Substring(segment))))
        }
        return builder.field
    }

    /// Reads a path of nothing but legal ASCII, and `\/` for `/` (iOS and Android write that); or nothing at
    /// all.
    private mutating func readPlainTarget(below base: Path) -> Field<Target>? {
        var cursor = drafts.reader.cursor
        var keys = base.keys
        keys.reserveCapacity(base.count &+ Self.usualKeyCount)
        cursor.advance()
        while true {
            let start = cursor.offset
            let words = (cursor.word(0), cursor.word(8))
            Self.skipPlain(&cursor)
            let byteCount = cursor.offset &- start
            if byteCount > 0 {
                // Legal but for its length, which whoever can say what is wrong with it will see.
                guard byteCount <= Limits.keyByteCount, keys.count < Limits.pathDepth else { return nil }
                if let first = words.0, let second = words.1,
                    let key = Key(plain: first, second, byteCount: byteCount)
                {
                    keys.append(key)
                } else {
                    keys.append(cursor.key(start..<cursor.offset))
                }
            }
            switch cursor.current {
            case UInt8(ascii: "/"): cursor.advance()
            case UInt8(ascii: "\\") where cursor.peek(1) == UInt8(ascii: "/"): cursor.advance(2)
            case UInt8(ascii: "\""):
                cursor.advance()
                drafts.reader.cursor.offset = cursor.offset
                return .value(Target(Path(consume keys)))
            default: return nil
            }
        }
    }

    /// Room that is made at once; more is found when it is needed.
    private static let usualKeyCount = 4

    /// Moves over ASCII that is legal in keys and stands for itself in JSON strings.
    private static func skipPlain(_ cursor: inout ByteCursor) {
        while let marks = cursor.find(.path) {
            if marks != 0 { return cursor.advance(marks.trailingZeroBitCount) }
            cursor.advance(ByteMask.path.byteCount)
        }
        // Beyond the end there is 0, which is not plain.
        while isPlain(cursor.current) { cursor.advance() }
    }

    /// The same of one byte.
    private static func isPlain(_ byte: UInt8) -> Bool {
        // One bit a character: all from the space on, without `"` `#` `$` `.` `/` and `[` `\` `]` DEL.
        let low: UInt64 = 0xFFFF_FFFF_0000_0000 & ~(1 << 0x22 | 1 << 0x23 | 1 << 0x24 | 1 << 0x2E | 1 << 0x2F)
        let high: UInt64 = ~(1 << 0x1B | 1 << 0x1C | 1 << 0x1D | 1 << 0x3F)
        return byte < 0x80 && (byte < 0x40 ? low : high) >> UInt64(byte & 0x3F) & 1 == 1
    }
}
