import PandoBytes

// Prints nodes as JSON, in export form (realtime §8.3): compact, children in key order, no arrays,
// `.priority` before the children.

extension [UInt8] {
    /// Appends a node in export form. O(size).
    package mutating func append(json node: Node) {
        switch node {
        case .empty: append("null")
        case .boolean(let value): append(value ? "true" : "false")
        case .integer(let value): append(decimal: value)
        case .double(let value): append(json: value)
        case .string(let text): append(json: text)
        case .object(let children):
            append(UInt8(ascii: "{"))
            append(members: children, isFirst: true)
            append(UInt8(ascii: "}"))
        case .prioritized(let box):
            if case .object(let children) = box.node {
                append("{\".priority\":")
                append(json: box.priority.node)
                append(members: children, isFirst: false)
            } else {
                append("{\".value\":")
                append(json: box.node)
                append(",\".priority\":")
                append(json: box.priority.node)
            }
            append(UInt8(ascii: "}"))
        }
    }

    private mutating func append(members children: Children, isFirst: Bool) {
        var isFirst = isFirst
        children.forEach { key, node in
            if !isFirst { append(UInt8(ascii: ",")) }
            isFirst = false
            append(jsonName: key)
            append(UInt8(ascii: ":"))
            append(json: node)
            return true
        }
    }

    /// Appends a double with the fewest digits that read back as the same number.
    package mutating func append(json value: Double) {
        precondition(value.isFinite)
        append(utf8: value.description)
    }

    /// Appends text in quotes. Escapes only what RFC 8259 §7 demands. O(bytes).
    package mutating func append(json text: Text) {
        text.withBytes { bytes in
            // `UInt8` has no padding: every byte of the span is initialised.
            let raw = unsafe bytes.bytes
            if Self.needsNoEscapes(raw) {
                // Most text is copied as a whole.
                return append(atMost: raw.byteCount &+ 2) { writer in
                    writer.append(UInt8(ascii: "\""))
                    writer.append(raw)
                    writer.append(UInt8(ascii: "\""))
                }
            }
            append(UInt8(ascii: "\""))
            append(escaping: bytes)
            append(UInt8(ascii: "\""))
        }
    }

    @inline(__always)
    private static func needsNoEscapes(_ bytes: RawSpan) -> Bool {
        withCursor(over: bytes) { cursor in
            cursor.advance(to: .json)
            return cursor.isAtEnd
        }
    }

    /// Appends a part of a text, with the escapes of ``append(json:)-(Text)`` and without quotes.
    /// - Parameters:
    ///   - start: The byte of the text at which the part begins.
    ///   - byteCount: The most bytes of the text, at least 4.
    /// - Returns: The byte at which the part ends: the end of the text, or the beginning of a character.
    /// - Complexity: O(`byteCount`).
    package mutating func append(escaping text: Text, from start: Int, atMost byteCount: Int) -> Int {
        precondition(byteCount >= 4, "a character has up to four bytes")
        return text.withBytes { bytes in
            var end = bytes.count
            if byteCount < end - start {
                end = start + byteCount
                // Not between the bytes of one character: only its first byte is not 10xxxxxx.
                while bytes[end] & 0xC0 == 0x80 { end -= 1 }
            }
            append(escaping: bytes.extracting(start..<end))
            return end
        }
    }

    /// Appends a key in quotes, with the escapes of ``append(json:)-(Text)``.
    package mutating func append(jsonName key: Key) {
        if unsafe key.withPlainJSON({ unsafe append(contentsOf: $0) }) != nil { return }
        append(UInt8(ascii: "\""))
        key.withBytes { append(escaping: $0) }
        append(UInt8(ascii: "\""))
    }

    /// Appends text with escapes.
    private mutating func append(escaping text: Span<UInt8>) {
        // `UInt8` has no padding: every byte of the span is initialised.
        let bytes = unsafe text.bytes
        withCursor(over: bytes) { cursor in
            while !cursor.isAtEnd {
                let start = cursor.offset
                cursor.advance(to: .json)
                append(bytes.extracting(start..<cursor.offset))
                guard !cursor.isAtEnd else { return }
                append(escape: cursor.current)
                cursor.advance()
            }
        }
    }

    private mutating func append(escape byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): append("\\\"")
        case UInt8(ascii: "\\"): append("\\\\")
        case 0x08: append("\\b")
        case 0x09: append("\\t")
        case 0x0A: append("\\n")
        case 0x0C: append("\\f")
        case 0x0D: append("\\r")
        default:
            let digits: StaticString = "0123456789abcdef"
            append("\\u00")
            // In bounds: four bits index sixteen digits.
            unsafe append(digits.utf8Start[Int(byte >> 4)])
            unsafe append(digits.utf8Start[Int(byte & 15)])
        }
    }
}

extension Node: CustomStringConvertible {
    /// The export form as text.
    package var description: String {
        var bytes: [UInt8] = []
        bytes.append(json: self)
        return String(decoding: bytes, as: UTF8.self)
    }
}
