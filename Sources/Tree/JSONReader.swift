import PandoBytes

/// Bytes that are not JSON (RFC 8259), JSON nested deeper than ``Limits/jsonDepth``, or more of it than was
/// asked for.
@usableFromInline
package enum MalformedJSON: Error, Equatable, Sendable {
    /// The offset is that of the first byte that cannot be.
    case unexpected(byteOffset: Int)
    case tooDeep(byteOffset: Int)
    /// More nodes than ``DraftParser/nodeLimit``.
    case tooManyNodes(byteOffset: Int)

    package var byteOffset: Int {
        switch self {
        case .unexpected(let offset), .tooDeep(let offset), .tooManyNodes(let offset): offset
        }
    }
}

/// Reads JSON tokens from bytes, strictly, without building anything but the text and numbers asked for.
///
/// Two kinds of wrong are kept apart, because they get different answers: ``MalformedJSON`` is thrown; text
/// that is JSON but no data of ours (a lone surrogate, a number beyond a double) is noted in ``invalidData``,
/// first one first, and reading goes on.
///
/// The tokens of one byte are inlinable: a request reads some forty of them, and a call into this room costs
/// as much as three of them do.
@usableFromInline
package struct JSONReader {
    @usableFromInline package var cursor: ByteCursor
    package var invalidData: InvalidData?
    /// The unescaped text of the string at hand; kept to be reused.
    var scratch: [UInt8] = []

    package init(_ cursor: ByteCursor) {
        self.cursor = cursor
    }

    package mutating func note(_ problem: InvalidData) {
        if invalidData == nil { invalidData = problem }
    }

    @usableFromInline
    package func unexpected() -> MalformedJSON { .unexpected(byteOffset: cursor.offset) }

    /// The next byte that is not white space, not consumed; 0 at the end.
    @inlinable
    package mutating func peek() -> UInt8 {
        let byte = cursor.current
        return byte > 0x20 ? byte : skipWhiteSpace()
    }

    @usableFromInline
    mutating func skipWhiteSpace() -> UInt8 {
        while true {
            switch cursor.current {
            case 0x20, 0x0A, 0x0D, 0x09: cursor.advance()
            case let byte: return byte
            }
        }
    }

    /// Consumes `byte` when it comes next.
    @inlinable
    package mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        cursor.advance()
        return true
    }

    @inlinable
    package mutating func expect(_ byte: UInt8) throws(MalformedJSON) {
        guard take(byte) else { throw unexpected() }
    }

    /// Nothing but white space may be left.
    package mutating func expectEnd() throws(MalformedJSON) {
        _ = peek()
        guard cursor.isAtEnd else { throw unexpected() }
    }

    package mutating func expect(literal: StaticString) throws(MalformedJSON) {
        for index in 0..<literal.utf8CodeUnitCount {
            // In bounds: the literal's own count.
            guard unsafe cursor.current == literal.utf8Start[index] else { throw unexpected() }
            cursor.advance()
        }
    }

    /// Reads `{`, and calls `member` after each name and its colon; `member` must consume the value.
    package mutating func readObject(
        _ member: (inout JSONReader, Text) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"))
        if take(UInt8(ascii: "}")) { return }
        repeat {
            let name = try readString()
            try expect(UInt8(ascii: ":"))
            try member(&self, name)
        } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "}"))
    }

    /// Reads `[`, and calls `element` before each element, which it must consume.
    package mutating func readArray(
        _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "["))
        if take(UInt8(ascii: "]")) { return }
        repeat { try element(&self) } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "]"))
    }

    /// Checks one value of any kind and gives the range of bytes it stands in.
    /// - Parameter depth: How many arrays and objects are open around it.
    package mutating func skipValue(depth: Int = 0) throws(MalformedJSON) -> Range<Int> {
        _ = peek()
        let start = cursor.offset
        /// The arrays and objects that are open inside it, outermost first. A loop, not recursion: how deep
        /// the stack goes is not for the sender to say.
        var closers: [UInt8] = []
        repeat {
            if try skipToValueEnd(&closers, depth: depth) { continue }
            // A value has ended, and with it whatever closes here.
            while let closer = closers.last {
                if take(UInt8(ascii: ",")) {
                    if closer == UInt8(ascii: "}") { try skipName() }
                    break
                }
                try expect(closer)
                closers.removeLast()
            }
        } while !closers.isEmpty
        return start..<cursor.offset
    }

    /// Skips a leaf, an empty array or object, or the beginning of one with members: then true.
    private mutating func skipToValueEnd(_ closers: inout [UInt8], depth: Int) throws(MalformedJSON) -> Bool {
        let first = peek()
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            guard depth + closers.count < Limits.jsonDepth else { throw .tooDeep(byteOffset: cursor.offset) }
        }
        switch first {
        case UInt8(ascii: "{"):
            cursor.advance()
            if take(UInt8(ascii: "}")) { return false }
            closers.append(UInt8(ascii: "}"))
            try skipName()
            return true
        case UInt8(ascii: "["):
            cursor.advance()
            if take(UInt8(ascii: "]")) { return false }
            closers.append(UInt8(ascii: "]"))
            return true
        case UInt8(ascii: "\""): _ = try readString()
        case UInt8(ascii: "t"): try expect(literal: "true")
        case UInt8(ascii: "f"): try expect(literal: "false")
        case UInt8(ascii: "n"): try expect(literal: "null")
        default: _ = try readNumber()
        }
        return false
    }

    private mutating func skipName() throws(MalformedJSON) {
        _ = try readString()
        try expect(UInt8(ascii: ":"))
    }
}

extension JSONReader {
    /// Reads a string, number, boolean or null as the leaf it is; null is `.empty`.
    package mutating func readLeaf() throws(MalformedJSON) -> Node {
        switch peek() {
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "t"):
            try expect(literal: "true")
            return .boolean(true)
        case UInt8(ascii: "f"):
            try expect(literal: "false")
            return .boolean(false)
        case UInt8(ascii: "n"):
            try expect(literal: "null")
            return .empty
        default: return try readNumber()
        }
    }
}
