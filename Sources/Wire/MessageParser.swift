import PandoBytes
import PandoTree

// Parses one message from JSON to ``ClientMessage``.
//
//     {"t":"d","d":{"r":1,"a":"p","b":{"p":"/a/b","d":…,"h":"…"}}}
//
// What a `d` or `b` contains depends on the `t` or `a` next to it, and the SDKs differ: JavaScript writes `t`
// and `a` first, C++ sorts members, iOS has no fixed order. So each `d` or `b` is read at once as what it is
// known or most likely to be, and its range is kept. If that was wrong, or a later member replaces `t` or
// `a`, the range is read again.

/// The state of one parse. Functions throw only ``MalformedJSON``, for which no second reading helps. For any
/// other fault they set ``fault`` and return nil, because a later member of the same name may replace the
/// faulty one.
struct MessageParser: ~Copyable {
    var drafts: DraftParser
    /// Why the last function returned nil.
    var fault = MalformedMessage.missing("d")

    /// - Parameters:
    ///   - nodeLimit: Most nodes that all data in the message may have.
    ///   - skipsData: Whether data is skipped, and read as `.empty`.
    init(_ cursor: ByteCursor, nodeLimit: Int = .max, skipsData: Bool = false) {
        drafts = DraftParser(JSONReader(cursor), nodeLimit: nodeLimit)
        drafts.skipsContent = skipsData
    }

    /// The offset of the next byte.
    var offset: Int { drafts.reader.cursor.offset }

    /// Sets ``fault``, for a value that was consumed.
    /// - Returns: nil.
    mutating func fail<Value>(_ reason: MalformedMessage) -> Value? {
        fault = reason
        return nil
    }

    /// Sets ``fault``, and skips the next value.
    /// - Returns: nil.
    mutating func skip<Value>(_ reason: MalformedMessage) throws(MalformedJSON) -> Value? {
        try skip()
        return fail(reason)
    }

    // MARK: Envelope

    /// The value of the envelope's `t`.
    private enum Kind { case data, control, other, notText }

    /// Reads the message.
    /// - Returns: nil, with ``fault`` set, when it violates the protocol.
    mutating func readMessage() throws(MalformedJSON) -> ClientMessage? {
        let start = drafts.reader.cursor
        if let request = try readCommonRequest() { return .request(request) }
        drafts.reader.cursor = start
        return try readAnyMessage()
    }

    /// Reads a request that has exactly the form in which JavaScript writes it. Saves a quarter of the time
    /// for a small put; other SDKs' messages differ at their first member.
    /// - Returns: nil for any other message, which must then be read from its beginning.
    /// - Throws: Only what ``readAnyMessage()`` throws for the same bytes, too.
    private mutating func readCommonRequest() throws(MalformedJSON) -> Request? {
        // The end is checked first, so that a message that only ends differently is not read twice.
        guard drafts.reader.cursor.endsWith("}}"), drafts.reader.cursor.consume("{\"t\":\"d\",\"d\":{\"r\":"),
            case .value(let number) = try readInteger(),
            drafts.reader.cursor.consume(",\"a\":\""), let actionName = readCommonActionName(),
            drafts.reader.cursor.consume(",\"b\":"), let action = try readCommonAction(actionName),
            drafts.reader.cursor.consume("}}"), drafts.reader.cursor.isAtEnd
        else { return nil }
        return Request(number: number, action: action)
    }

    /// Reads an action's name of one letter and the quote behind it.
    private mutating func readCommonActionName() -> ActionName? {
        let letter = drafts.reader.cursor.current
        drafts.reader.cursor.advance()
        guard drafts.reader.cursor.consume("\"") else { return nil }
        switch letter {
        case UInt8(ascii: "p"): return .put
        case UInt8(ascii: "m"): return .merge
        case UInt8(ascii: "q"): return .listen
        case UInt8(ascii: "n"): return .unlisten
        case UInt8(ascii: "g"): return .get
        case UInt8(ascii: "o"): return .onDisconnectPut
        default: return nil
        }
    }

    private mutating func readCommonAction(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        switch actionName {
        case .put, .onDisconnectPut: try readCommonPut(actionName)
        default: try readAction(actionName)
        }
    }

    private mutating func readAnyMessage() throws(MalformedJSON) -> ClientMessage? {
        var kind: Kind?
        var content: Range<Int>?
        // Whether `content` was read as a request: then `request` is the result, nil for a fault.
        var isRead = false
        var request: Request?
        guard peek() == UInt8(ascii: "{") else {
            try skip()
            try drafts.reader.expectEnd()
            return fail(.missing("t"))
        }
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .t: kind = try parser.readKind()
            case .d:
                let start = parser.startOfValue()
                // While `t` is not known, `d` is most likely that of a data message.
                isRead = kind == nil || kind == .data
                if isRead { request = try parser.readRequest() } else { try parser.skip() }
                content = start..<parser.offset
            default: try parser.skip()
            }
        }
        try drafts.reader.expectEnd()
        guard let kind else { return fail(.missing("t")) }
        guard let content else { return fail(.missing("d")) }
        switch kind {
        case .data:
            if !isRead {
                request = try reread(content) { (parser) throws(MalformedJSON) in try parser.readRequest() }
            }
            guard let request = request.take() else { return nil }
            return .request(request)
        case .control:
            return try reread(content) { (parser) throws(MalformedJSON) in try parser.readControl() }
        case .other: return fail(.unknownKind)
        case .notText: return fail(.wrongType("t"))
        }
    }

    private mutating func readKind() throws(MalformedJSON) -> Kind {
        if let letter = readLetter() {
            return letter == UInt8(ascii: "d") ? .data : letter == UInt8(ascii: "c") ? .control : .other
        }
        guard case .value(let text) = try readText() else { return .notText }
        return text == "d" ? .data : text == "c" ? .control : .other
    }

    // MARK: Control

    private mutating func readControl() throws(MalformedJSON) -> ClientMessage? {
        guard peek() == UInt8(ascii: "{") else { return try skip(.wrongType("d")) }
        var kind = Field<Text>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            if name == .t { kind = try parser.readText() } else { try parser.skip() }
        }
        switch kind {
        case .value("p"): return .ping
        case .value("a"): return .upgrade
        case .value("n"): return .endOfTransmission
        case .value(let text): return .unknownControl(text)
        case .absent: return fail(.missing("t"))
        case .wrongType, .invalid: return fail(.wrongType("t"))
        }
    }

    // MARK: Requests

    private mutating func readRequest() throws(MalformedJSON) -> Request? {
        guard peek() == UInt8(ascii: "{") else { return try skip(.wrongType("d")) }
        var number = Field<Int64>.absent
        var actionName: ActionName?
        var body: Range<Int>?
        // Whether `body` was read as that of `actionName`: then `action` is the result, nil for a fault.
        var isRead = false
        var action: Action?
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .r: number = try parser.readInteger()
            case .a:
                actionName = try parser.readActionName()
                isRead = false
            case .b:
                let start = parser.startOfValue()
                if let actionName { action = try parser.readAction(actionName) } else { try parser.skip() }
                isRead = actionName != nil
                body = start..<parser.offset
            default: try parser.skip()
            }
        }
        let found: Int64
        switch number {
        case .absent: return fail(.missing("r"))
        case .wrongType, .invalid: return fail(.wrongType("r"))
        case .value(let number): found = number
        }
        guard let actionName else { return fail(.missing("a")) }
        if case .notText = actionName { return fail(.wrongType("a")) }
        if let body {
            if !isRead {
                action = try reread(body) { (parser) throws(MalformedJSON) in
                    try parser.readAction(actionName)
                }
            }
        } else {
            action = actionName.actionWithoutBody
            if action == nil { return fail(.missing("b")) }
        }
        // Moved out of its variable, not copied: a put has four references.
        guard let action = action.take() else { return nil }
        return Request(number: found, action: action)
    }

    private mutating func readActionName() throws(MalformedJSON) -> ActionName {
        if let letter = readLetter() { return ActionName(letter: letter) }
        guard case .value(let text) = try readText() else { return .notText }
        return ActionName(text)
    }

    /// Reads the value at `range` again, and returns to the current offset.
    mutating func reread<Value>(
        _ range: Range<Int>, _ body: (inout MessageParser) throws(MalformedJSON) -> Value
    ) throws(MalformedJSON) -> Value {
        let end = offset
        drafts.reader.cursor.offset = range.lowerBound
        let value = try body(&self)
        assert(offset == range.upperBound, "the value has another end than when it was read first")
        drafts.reader.cursor.offset = end
        return value
    }
}
