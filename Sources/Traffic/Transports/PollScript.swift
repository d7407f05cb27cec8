import PandoBytes

/// A call in the response to a poll (realtime §1.5).
package enum PollCall: Equatable, Sendable {
    /// `pLPCommand('start', id, password)`
    case start(id: String, password: String)
    /// `pLPCommand('close')`, or with the number of the last response.
    case close(after: Int?)
    /// `pRTLPCB(number, [message, …])`: the range of each message in the script.
    case messages(number: Int, [Range<Int>])
}

/// A response that is not a script of long polling.
package struct MalformedPollScript: Error {
    package let offset: Int
}

/// Parses the calls of a response, in their order. Definitions of functions are skipped: they are always the
/// same.
package enum PollScript {
    /// The calls, in their order.
    /// - Throws: ``MalformedPollScript`` with the place of the first byte that does not fit.
    package static func calls(_ script: RawSpan) throws(MalformedPollScript) -> [PollCall] {
        try withCursor(over: script) { (cursor: inout ByteCursor) throws(MalformedPollScript) -> [PollCall] in
            var calls: [PollCall] = []
            while true {
                skipSpace(&cursor)
                if cursor.isAtEnd { return calls }
                if cursor.consume("function") {
                    try skipFunction(&cursor)
                } else if cursor.consume("pLPCommand(") {
                    calls.append(try command(&cursor))
                } else if cursor.consume("pRTLPCB(") {
                    calls.append(try messages(&cursor))
                } else {
                    throw MalformedPollScript(offset: cursor.offset)
                }
            }
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    /// White space and ends of statements.
    private static func skipSpace(_ cursor: inout ByteCursor) {
        while isSpace(cursor.current) || cursor.current == UInt8(ascii: ";") { cursor.advance() }
    }

    private static func need(
        _ byte: Unicode.Scalar, _ cursor: inout ByteCursor
    ) throws(MalformedPollScript) {
        skipSpace(&cursor)
        guard cursor.current == UInt8(ascii: byte) else { throw MalformedPollScript(offset: cursor.offset) }
        cursor.advance()
    }

    /// Behind `pLPCommand(`.
    private static func command(_ cursor: inout ByteCursor) throws(MalformedPollScript) -> PollCall {
        let verb = try text(&cursor)
        var (arguments, number): ([String], Int?) = ([], nil)
        skipSpace(&cursor)
        while cursor.current == UInt8(ascii: ",") {
            cursor.advance()
            skipSpace(&cursor)
            if (0x30...0x39).contains(cursor.current) {
                number = try decimal(&cursor)
            } else {
                arguments.append(try text(&cursor))
            }
            skipSpace(&cursor)
        }
        try need(")", &cursor)
        switch (verb, arguments.count) {
        case ("start", 2) where number == nil: return .start(id: arguments[0], password: arguments[1])
        case ("close", 0): return .close(after: number)
        default: throw MalformedPollScript(offset: cursor.offset)
        }
    }

    /// Behind `pRTLPCB(`.
    private static func messages(_ cursor: inout ByteCursor) throws(MalformedPollScript) -> PollCall {
        let number = try decimal(&cursor)
        try need(",", &cursor)
        try need("[", &cursor)
        var messages: [Range<Int>] = []
        skipSpace(&cursor)
        while cursor.current != UInt8(ascii: "]") {
            if !messages.isEmpty { try need(",", &cursor) }
            skipSpace(&cursor)
            messages.append(try object(&cursor))
            skipSpace(&cursor)
        }
        cursor.advance()
        try need(")", &cursor)
        return .messages(number: number, messages)
    }

    private static func decimal(_ cursor: inout ByteCursor) throws(MalformedPollScript) -> Int {
        skipSpace(&cursor)
        let start = cursor.offset
        var value = 0
        // Eighteen digits fit.
        while (0x30...0x39).contains(cursor.current), cursor.offset < start + 18 {
            value = value * 10 + Int(cursor.current - 0x30)
            cursor.advance()
        }
        guard cursor.offset > start else { throw MalformedPollScript(offset: start) }
        return value
    }

    /// Text between quotes of either kind, without escapes: verbs, ids and passwords have none.
    private static func text(_ cursor: inout ByteCursor) throws(MalformedPollScript) -> String {
        skipSpace(&cursor)
        let quote = cursor.current
        guard quote == UInt8(ascii: "'") || quote == UInt8(ascii: "\"") else {
            throw MalformedPollScript(offset: cursor.offset)
        }
        cursor.advance()
        let start = cursor.offset
        while !cursor.isAtEnd, cursor.current != quote { cursor.advance() }
        let end = cursor.offset
        guard !cursor.isAtEnd else { throw MalformedPollScript(offset: start) }
        cursor.advance()
        return cursor.string(start..<end)
    }

    /// One JSON object: braces that balance outside of strings. Whether it is JSON, its reader finds out.
    private static func object(_ cursor: inout ByteCursor) throws(MalformedPollScript) -> Range<Int> {
        let start = cursor.offset
        guard cursor.current == UInt8(ascii: "{") else { throw MalformedPollScript(offset: start) }
        try skipBraces(&cursor)
        return start..<cursor.offset
    }

    private static func skipFunction(_ cursor: inout ByteCursor) throws(MalformedPollScript) {
        while !cursor.isAtEnd, cursor.current != UInt8(ascii: "{") { cursor.advance() }
        try skipBraces(&cursor)
    }

    /// From an opening brace to behind the one that closes it.
    private static func skipBraces(_ cursor: inout ByteCursor) throws(MalformedPollScript) {
        var (depth, quote): (Int, UInt8?) = (0, nil)
        while !cursor.isAtEnd {
            let byte = cursor.current
            cursor.advance()
            if let open = quote {
                if byte == UInt8(ascii: "\\") { cursor.advance() } else if byte == open { quote = nil }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = byte
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return }
            default: break
            }
        }
        throw MalformedPollScript(offset: cursor.offset)
    }
}
