import PandoBytes

/// Why bytes are refused: not JSON (RFC 8259), nested deeper than ``Limits/jsonDepth``, or more than the
/// caller allows.
@usableFromInline
package enum MalformedJSON: Error, Equatable, Sendable {
    /// Not JSON. The offset is that of the first unexpected byte.
    case unexpected(byteOffset: Int)
    /// Nested deeper than ``Limits/jsonDepth``.
    case tooDeep(byteOffset: Int)
    /// More nodes than the `nodeLimit` of ``DraftParser``.
    case tooManyNodes(byteOffset: Int)

    /// Where the error was found, from the first byte of the input.
    package var byteOffset: Int {
        switch self {
        case .unexpected(let offset), .tooDeep(let offset), .tooManyNodes(let offset): offset
        }
    }
}

/// Reads JSON tokens from bytes, strictly (RFC 8259). Makes only the texts and numbers that are asked for.
///
/// There are two kinds of errors, because they get different responses: ``MalformedJSON`` is thrown; JSON
/// that cannot be stored (a lone surrogate, a number beyond a double) is noted in ``invalidData``, and
/// reading continues.
///
/// The functions for tokens of one byte are inlinable: a request has about forty such tokens, and a call into
/// this module takes as long as reading three.
@usableFromInline
package struct JSONReader {
    /// The position in the input.
    @usableFromInline package var cursor: ByteCursor
    /// The first invalid data since it was set to nil.
    package var invalidData: InvalidData?
    /// For unescaping a string; its memory is reused.
    var scratch: [UInt8] = []

    package init(_ cursor: ByteCursor) {
        self.cursor = cursor
    }

    /// Sets ``invalidData``, unless it is set.
    package mutating func note(_ problem: InvalidData) {
        if invalidData == nil { invalidData = problem }
    }

    /// The error for an unexpected byte at the cursor.
    @usableFromInline
    package func unexpected() -> MalformedJSON { .unexpected(byteOffset: cursor.offset) }

    /// Skips white space.
    /// - Returns: The next byte, which is not consumed; 0 at the end.
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

    /// Consumes `byte` if it is the next byte behind white space.
    /// - Returns: Whether it was.
    @inlinable
    package mutating func consume(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        cursor.advance()
        return true
    }

    /// Consumes `byte`.
    /// - Throws: ``MalformedJSON`` when another byte comes next.
    @inlinable
    package mutating func expect(_ byte: UInt8) throws(MalformedJSON) {
        guard consume(byte) else { throw unexpected() }
    }

    /// Checks that only white space is left.
    /// - Throws: ``MalformedJSON`` otherwise.
    package mutating func expectEnd() throws(MalformedJSON) {
        _ = peek()
        guard cursor.isAtEnd else { throw unexpected() }
    }

    /// Consumes the bytes of `literal`.
    /// - Throws: ``MalformedJSON`` when other bytes come next.
    package mutating func expect(literal: StaticString) throws(MalformedJSON) {
        for index in 0..<literal.utf8CodeUnitCount {
            // In bounds: the literal's own count.
            guard unsafe cursor.current == literal.utf8Start[index] else { throw unexpected() }
            cursor.advance()
        }
    }

    /// Reads an object. Calls `member` with each name, behind its colon; `member` must consume the value.
    /// - Throws: ``MalformedJSON``.
    package mutating func readObject(
        _ member: (inout JSONReader, Text) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"))
        if consume(UInt8(ascii: "}")) { return }
        repeat {
            let name = try readString()
            try expect(UInt8(ascii: ":"))
            try member(&self, name)
        } while consume(UInt8(ascii: ","))
        try expect(UInt8(ascii: "}"))
    }

    /// Reads an array. Calls `element` for each element, which it must consume.
    /// - Throws: ``MalformedJSON``.
    package mutating func readArray(
        _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "["))
        if consume(UInt8(ascii: "]")) { return }
        repeat { try element(&self) } while consume(UInt8(ascii: ","))
        try expect(UInt8(ascii: "]"))
    }

    /// Checks one value of any kind and moves behind it. O(bytes).
    /// - Parameter depth: How many arrays and objects it is nested in.
    /// - Returns: The range of its bytes.
    /// - Throws: ``MalformedJSON``.
    package mutating func skipValue(depth: Int = 0) throws(MalformedJSON) -> Range<Int> {
        _ = peek()
        let start = cursor.offset
        // The closing brackets of the open arrays and objects, outermost first. A loop, not recursion: the
        // sender must not control the depth of the stack.
        var closers: [UInt8] = []
        repeat {
            if try skipToValueEnd(&closers, depth: depth) { continue }
            // A value has ended, and perhaps arrays and objects around it.
            while let closer = closers.last {
                if consume(UInt8(ascii: ",")) {
                    if closer == UInt8(ascii: "}") { try skipName() }
                    break
                }
                try expect(closer)
                closers.removeLast()
            }
        } while !closers.isEmpty
        return start..<cursor.offset
    }

    /// Skips a leaf, an empty array or object, or the beginning of one with members.
    /// - Returns: true for such a beginning.
    private mutating func skipToValueEnd(_ closers: inout [UInt8], depth: Int) throws(MalformedJSON) -> Bool {
        let first = peek()
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            guard depth + closers.count < Limits.jsonDepth else { throw .tooDeep(byteOffset: cursor.offset) }
        }
        switch first {
        case UInt8(ascii: "{"):
            cursor.advance()
            if consume(UInt8(ascii: "}")) { return false }
            closers.append(UInt8(ascii: "}"))
            try skipName()
            return true
        case UInt8(ascii: "["):
            cursor.advance()
            if consume(UInt8(ascii: "]")) { return false }
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
    /// Reads a string, number, boolean or null as a leaf; null is `.empty`.
    /// - Throws: ``MalformedJSON``, also for an array or object.
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
