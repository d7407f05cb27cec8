/// Text that is no JSON of our server, and where it is not.
struct NoJSON: Error {
    var offset: Int
}

extension Value {
    /// - Throws: ``NoJSON``.
    init(json bytes: [UInt8]) throws(NoJSON) {
        var reader = ValueReader(bytes: bytes)
        self = try reader.read()
        guard reader.offset == bytes.count else { throw NoJSON(offset: reader.offset) }
    }
}

/// Reads the JSON of our server: no white space, and only the escapes that it writes for what the simulation
/// stores.
private struct ValueReader {
    let bytes: [UInt8]
    var offset = 0

    private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func consume(_ text: StaticString) throws(NoJSON) {
        for byte in "\(text)".utf8 {
            guard next == byte else { throw NoJSON(offset: offset) }
            offset += 1
        }
    }

    mutating func read() throws(NoJSON) -> Value {
        switch next {
        case UInt8(ascii: "n"):
            try consume("null")
            return .nothing
        case UInt8(ascii: "t"):
            try consume("true")
            return .boolean(true)
        case UInt8(ascii: "f"):
            try consume("false")
            return .boolean(false)
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "{"): return try readObject()
        case UInt8(ascii: "["): return try readArray()
        default: return try readNumber()
        }
    }

    private mutating func readNumber() throws(NoJSON) -> Value {
        let start = offset
        while let byte = next, "+-.eE0123456789".utf8.contains(byte) { offset += 1 }
        guard let number = Double(String(decoding: bytes[start..<offset], as: UTF8.self)) else {
            throw NoJSON(offset: start)
        }
        return .number(number)
    }

    private mutating func readString() throws(NoJSON) -> String {
        try consume("\"")
        var text: [UInt8] = []
        while let byte = next, byte != UInt8(ascii: "\"") {
            offset += 1
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let escaped = next, "\"\\/".utf8.contains(escaped) else { throw NoJSON(offset: offset) }
            text.append(escaped)
            offset += 1
        }
        try consume("\"")
        return String(decoding: text, as: UTF8.self)
    }

    /// An object of the elements, by their places.
    private mutating func readArray() throws(NoJSON) -> Value {
        try consume("[")
        var children: [String: Value] = [:]
        while next != UInt8(ascii: "]") {
            if !children.isEmpty { try consume(",") }
            children["\(children.count)"] = try read()
        }
        try consume("]")
        return .object(children)
    }

    private mutating func readObject() throws(NoJSON) -> Value {
        try consume("{")
        var children: [String: Value] = [:]
        while next != UInt8(ascii: "}") {
            if !children.isEmpty { try consume(",") }
            let key = try readString()
            try consume(":")
            children[key] = try read()
        }
        try consume("}")
        return .object(children)
    }
}
