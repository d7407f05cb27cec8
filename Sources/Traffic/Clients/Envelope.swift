import PandoBytes
import PandoTree

/// A realtime message of a server (realtime §3), parsed as far as the load generator needs. Payloads are
/// ranges of the message: most are never parsed.
package enum Envelope {
    case greeting
    /// `status` is nil for `ok`.
    case reply(number: Int, status: String?, data: Range<Int>?)
    /// The body is a range of the message.
    case push(action: String, body: Range<Int>)
    case otherControl(String)

    /// Reads a message, its members in any order.
    /// - Throws: When it is not JSON or not a message.
    package static func read(_ text: RawSpan) throws(MalformedJSON) -> Envelope {
        try withCursor(over: text) { (cursor: inout ByteCursor) throws(MalformedJSON) -> Envelope in
            var reader = JSONReader(cursor)
            var kind = ""
            var inner: Range<Int>?
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                switch name {
                case "t": kind = try reader.readString().description
                case "d": inner = try reader.skipValue()
                default: _ = try reader.skipValue()
                }
            }
            guard let inner else { throw reader.unexpected() }
            reader.cursor.offset = inner.lowerBound
            return kind == "c" ? try readControl(&reader) : try readData(&reader)
        }
    }

    private static func readControl(_ reader: inout JSONReader) throws(MalformedJSON) -> Envelope {
        var verb = ""
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            if name == "t" { verb = try reader.readString().description } else { _ = try reader.skipValue() }
        }
        return verb == "h" ? .greeting : .otherControl(verb)
    }

    private static func readData(_ reader: inout JSONReader) throws(MalformedJSON) -> Envelope {
        var (number, action, body): (Int?, String, Range<Int>?) = (nil, "", nil)
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            switch name {
            case "r":
                let digits = try reader.skipValue()
                number = Int(reader.cursor.string(digits))
            case "a": action = try reader.readString().description
            case "b": body = try reader.skipValue()
            default: _ = try reader.skipValue()
            }
        }
        guard let body else { throw reader.unexpected() }
        guard let number else { return .push(action: action, body: body) }
        var (status, data): (String, Range<Int>?) = ("", nil)
        reader.cursor.offset = body.lowerBound
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            switch name {
            case "s": status = try reader.readString().description
            case "d": data = try reader.skipValue()
            default: _ = try reader.skipValue()
            }
        }
        return .reply(number: number, status: status == "ok" ? nil : status, data: data)
    }

    /// The number of `{"t":"d","d":{"r":12,"b":{"s":"ok"`…, the form that most servers use for most replies;
    /// nil for anything else.
    package static func plainReply(_ text: RawSpan) -> Int? {
        withCursor(over: text) { cursor in
            guard cursor.consume(#"{"t":"d","d":{"r":"#) else { return nil }
            var (number, digitCount) = (0, 0)
            while digitCount < 16, cursor.current >= 0x30, cursor.current <= 0x39 {
                number = number * 10 + Int(cursor.current - 0x30)
                digitCount += 1
                cursor.advance()
            }
            guard digitCount > 0, cursor.consume(#","b":{"s":"ok""#) else { return nil }
            return number
        }
    }

    /// Whether it begins as most servers begin a push: `{"t":"d","d":{"a":"`. Answers have no `a`.
    package static func isPlainPush(_ text: RawSpan) -> Bool {
        withCursor(over: text) { $0.consume(#"{"t":"d","d":{"a":""#) }
    }

    /// Path and value of a push's body (§5.1).
    /// - Throws: ``MalformedJSON`` or why the value cannot be stored.
    package static func change(_ text: RawSpan, _ body: Range<Int>) throws -> (path: String, value: Node) {
        var range: Range<Int>?
        let path = try readBody(text, body) { (reader) throws(MalformedJSON) in range = try reader.skipValue()
        }
        return (path, try node(text, range))
    }

    /// The members of a merge (§5.2): relative paths and their values.
    /// - Throws: As ``change(_:_:)``.
    package static func members(_ text: RawSpan, _ body: Range<Int>) throws -> (
        path: String, [(String, Node)]
    ) {
        var parts: [(String, Range<Int>)] = []
        let path = try readBody(text, body) { (reader) throws(MalformedJSON) in
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                parts.append((name.description, try reader.skipValue()))
            }
        }
        return (path, try parts.map { ($0.0, try node(text, $0.1)) })
    }

    /// Reads a push's body, `data` its `d`, and gives its path.
    private static func readBody(
        _ text: RawSpan, _ body: Range<Int>, data: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) -> String {
        try withCursor(over: text) { (cursor: inout ByteCursor) throws(MalformedJSON) -> String in
            var path = ""
            var reader = JSONReader(cursor)
            reader.cursor.offset = body.lowerBound
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                switch name {
                case "p": path = try reader.readString().description
                case "d": try data(&reader)
                default: _ = try reader.skipValue()
                }
            }
            return path
        }
    }

    /// Parses the value in the range; nil is `.empty`.
    /// - Throws: As ``change(_:_:)``.
    package static func node(_ text: RawSpan, _ range: Range<Int>?) throws -> Node {
        guard let range else { return .empty }
        return try Node(json: text.extracting(range))
    }
}

extension [UInt8] {
    /// Appends a request that signs in (§4.7). Tokens of every kind are accepted under this verb.
    package mutating func append(authentication token: String, number: Int) {
        append(#"{"t":"d","d":{"r":"#)
        append(decimal: Int64(number))
        append(#","a":"auth","b":{"cred":""#)
        append(utf8: token)
        append(#""}}}"#)
    }
}
