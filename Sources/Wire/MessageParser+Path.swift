import PandoBytes
import PandoTree

// Reads paths directly from the message's bytes, without a text of the whole path or an array of segments:
// one allocation for the keys, and one for each key that has its bytes on the heap. Accepts the same paths as
// ``Target/init(wire:)``, with the same errors.

/// Collects the segments of one path.
private struct PathBuilder {
    var keys: [Key]
    var isPriority = false
    var problem: InvalidData?

    init(below base: Path) {
        keys = base.keys
    }

    /// Appends a segment; empty ones are ignored (realtime §4.0).
    mutating func append(_ segment: Text) {
        guard segment.utf8Count > 0, problem == nil else { return }
        guard !isPriority else { return problem = .reservedPath }
        if segment.firstByte == UInt8(ascii: ".") {
            switch segment {
            case ".priority": isPriority = true
            case ".info" where keys.isEmpty: problem = .reservedPath
            default: problem = .illegalKey(segment)
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

    /// Reads a path that may end in `.priority`, relative to `base`.
    /// - Returns: An absolute target.
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
        // An accepted path has at most 33 segments, and a longer one is refused before the unsplit rest is
        // reached.
        for segment in path.string.utf8.split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2) {
            builder.append(Text(String(Substring(segment))))
        }
        return builder.field
    }

    /// Reads a path of legal ASCII, with `\/` for `/` as iOS and Android write it.
    /// - Returns: nil for any other path, which is not consumed.
    private mutating func readPlainTarget(below base: Path) -> Field<Target>? {
        var cursor = drafts.reader.cursor
        var keys = base.keys
        keys.reserveCapacity(base.count &+ Self.commonKeyCount)
        cursor.advance()
        while true {
            let start = cursor.offset
            let words = (cursor.word(0), cursor.word(8))
            cursor.advance(to: .path)
            let byteCount = cursor.offset &- start
            if byteCount > 0 {
                // Too long or too deep: the caller reads the path again, and finds the error.
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

    /// The initial capacity of the keys.
    private static let commonKeyCount = 4
}
