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
            if Self.isKnownPlain(raw) {
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

    /// Whether the text needs no escapes. false for a text of less than eight bytes, which is not checked.
    @inline(__always)
    private static func isKnownPlain(_ bytes: RawSpan) -> Bool {
        let count = bytes.byteCount
        var index = 0
        // The last mask ends at the end of the text, and covers some bytes again.
        if count >= ByteMask.json.byteCount {
            while index < count {
                if bytes.mask(of: .json, at: Swift.min(index, count &- ByteMask.json.byteCount)) != 0 {
                    return false
                }
                index &+= ByteMask.json.byteCount
            }
            return true
        }
        guard count >= 8 else { return false }
        while index < count {
            let start = Swift.min(index, count &- 8)
            // In bounds: there are eight bytes, and they end at the last one or before.
            let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: start, as: UInt64.self)
            if JSONReader.specialBytes(word) != 0 { return false }
            index &+= 8
        }
        return true
    }

    /// Appends a key in quotes, with the escapes of ``append(json:)-(Text)``.
    package mutating func append(jsonName key: Key) {
        if unsafe key.withPlainJSON({ unsafe append(contentsOf: $0) }) != nil { return }
        append(UInt8(ascii: "\""))
        key.withBytes { append(escaping: $0) }
        append(UInt8(ascii: "\""))
    }

    /// Appends text with escapes. Checks 32 bytes at once, then eight: most text needs no escapes (100 bytes:
    /// 1130 instructions byte by byte, 450 by eight).
    private mutating func append(escaping text: Span<UInt8>) {
        // `UInt8` has no padding: every byte of the span is initialised.
        let bytes = unsafe text.bytes
        var runStart = 0
        var index = 0
        while index < text.count {
            if text.count &- index >= ByteMask.json.byteCount {
                let mask = bytes.mask(of: .json, at: index)
                guard mask != 0 else {
                    index &+= ByteMask.json.byteCount
                    continue
                }
                index &+= mask.trailingZeroBitCount
            } else if text.count &- index >= 8 {
                // In bounds: eight bytes remain.
                let word = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
                let special = JSONReader.specialBytes(UInt64(littleEndian: word))
                guard special != 0 else {
                    index &+= 8
                    continue
                }
                index &+= special.trailingZeroBitCount / 8
            } else if !Self.needsEscape(text[index]) {
                index &+= 1
                continue
            }
            if runStart < index { append(bytes.extracting(runStart..<index)) }
            append(escape: text[index])
            index &+= 1
            runStart = index
        }
        if runStart < text.count { append(bytes.extracting(runStart..<text.count)) }
    }

    private static func needsEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
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
