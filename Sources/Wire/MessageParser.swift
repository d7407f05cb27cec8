import PandoBytes
import PandoTree

// One message from JSON to ``ClientMessage``.
//
//     {"t":"d","d":{"r":1,"a":"p","b":{"p":"/a/b","d":…,"h":"…"}}}
//
// What stands in a `d` or `b` is only known from the `t` or `a` beside it, and SDKs differ: JavaScript writes
// `t` and `a` first, C++ sorts its members, iOS has no order. So each is read at once as what it is known or
// most likely to be, its place is remembered, and if the guess was wrong or overruled, it is read again.

/// The state of one parse. Throws only what no reading could mend, ``MalformedJSON``. Who finds another fault
/// notes it and gives nil, so that a member that is overruled by a later one does no harm.
struct MessageParser {
    var drafts: DraftParser
    /// Why the last reading gave nil.
    var fault = MalformedMessage.missing("d")

    /// - Parameters:
    ///   - nodeLimit: Most nodes that all data in the message may have.
    ///   - skipsData: Data is passed over, and read as nothing.
    init(_ cursor: ByteCursor, nodeLimit: Int = .max, skipsData: Bool = false) {
        drafts = DraftParser(JSONReader(cursor), nodeLimit: nodeLimit)
        drafts.skipsContent = skipsData
    }

    /// Where the next byte is.
    var offset: Int { drafts.reader.cursor.offset }

    /// Notes a fault in the value at hand, which has been consumed.
    mutating func fail<Value>(_ reason: MalformedMessage) -> Value? {
        fault = reason
        return nil
    }

    /// Notes a fault, and passes over the value at hand.
    mutating func skip<Value>(_ reason: MalformedMessage) throws(MalformedJSON) -> Value? {
        try skip()
        return fail(reason)
    }

    // MARK: Envelope

    private enum Kind { case data, control, other, notText }

    /// Reads the whole message.
    mutating func readMessage() throws(MalformedJSON) -> ClientMessage? {
        let start = drafts.reader.cursor
        if let request = try readUsualRequest() { return .request(request) }
        drafts.reader.cursor = start
        return try readAnyMessage()
    }

    /// Reads a request as JavaScript writes it, to the letter around its parts; nil for any other message,
    /// which is then read from its beginning. What is thrown, whoever reads the same bytes throws too.
    ///
    /// To look for no member in no order saves a quarter of the reading of a small put. The other SDKs'
    /// spellings are told apart at the first member.
    private mutating func readUsualRequest() throws(MalformedJSON) -> Request? {
        // Its end is looked at first: what only ends otherwise would be read twice.
        guard drafts.reader.cursor.endsWith("}}"), drafts.reader.cursor.take("{\"t\":\"d\",\"d\":{\"r\":"),
            case .value(let number) = try readInteger(),
            drafts.reader.cursor.take(",\"a\":\""), let verb = readUsualVerb(),
            drafts.reader.cursor.take(",\"b\":"), let action = try readUsualAction(verb),
            drafts.reader.cursor.take("}}"), drafts.reader.cursor.isAtEnd
        else { return nil }
        return Request(number: number, action: action)
    }

    /// A verb of one letter, behind its first quote.
    private mutating func readUsualVerb() -> Verb? {
        let letter = drafts.reader.cursor.current
        drafts.reader.cursor.advance()
        guard drafts.reader.cursor.take("\"") else { return nil }
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

    private mutating func readUsualAction(_ verb: Verb) throws(MalformedJSON) -> Action? {
        switch verb {
        case .put, .onDisconnectPut: try readUsualPut(verb)
        default: try readAction(verb)
        }
    }

    private mutating func readAnyMessage() throws(MalformedJSON) -> ClientMessage? {
        var kind: Kind?
        var content: Range<Int>?
        // True when `content` was read as a request: then `request` is it, or nil for a fault.
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
                // Before its `t` is known, a `d` is most likely that of a data message.
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
        if let letter = takeLetter() {
            return letter == UInt8(ascii: "d") ? .data : letter == UInt8(ascii: "c") ? .control : .other
        }
        guard case .value(let text) = try readText() else { return .notText }
        return text == "d" ? .data : text == "c" ? .control : .other
    }

    // MARK: Control

    private mutating func readControl() throws(MalformedJSON) -> ClientMessage? {
        guard peek() == UInt8(ascii: "{") else { return try skip(.wrongType("d")) }
        var verb = Field<Text>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            if name == .t { verb = try parser.readText() } else { try parser.skip() }
        }
        switch verb {
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
        var verb: Verb?
        var body: Range<Int>?
        // True when `body` was read as `verb` asks for it: then `action` is it, or nil for a fault.
        var isRead = false
        var action: Action?
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .r: number = try parser.readInteger()
            case .a:
                verb = try parser.readVerb()
                isRead = false
            case .b:
                let start = parser.startOfValue()
                if let verb { action = try parser.readAction(verb) } else { try parser.skip() }
                isRead = verb != nil
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
        guard let verb else { return fail(.missing("a")) }
        if case .notText = verb { return fail(.wrongType("a")) }
        if let body {
            if !isRead {
                action = try reread(body) { (parser) throws(MalformedJSON) in try parser.readAction(verb) }
            }
        } else {
            action = verb.actionWithoutBody
            if action == nil { return fail(.missing("b")) }
        }
        // Taken out of its variable, not copied: a put has four counted parts.
        guard let action = action.take() else { return nil }
        return Request(number: found, action: action)
    }

    private mutating func readVerb() throws(MalformedJSON) -> Verb {
        if let letter = takeLetter() { return Verb(letter: letter) }
        guard case .value(let text) = try readText() else { return .notText }
        return Verb(text)
    }

    /// Reads again what stands at `range`, and comes back.
    mutating func reread<Value>(
        _ range: Range<Int>, _ body: (inout MessageParser) throws(MalformedJSON) -> Value
    ) throws(MalformedJSON) -> Value {
        let end = offset
        drafts.reader.cursor.offset = range.lowerBound
        let value = try body(&self)
        drafts.reader.cursor.offset = end
        return value
    }
}

/// An action's name (realtime §4.0).
enum Verb: Equatable {
    case statistics, listen, unlisten, get, put, merge
    case onDisconnectPut, onDisconnectMerge, onDisconnectCancel
    case authenticate, unauthenticate, appCheck, dropAppCheck
    case unknown(Text)
    /// `a` is no string.
    case notText

    init(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "p"): self = .put
        case UInt8(ascii: "m"): self = .merge
        case UInt8(ascii: "q"): self = .listen
        case UInt8(ascii: "n"): self = .unlisten
        case UInt8(ascii: "g"): self = .get
        case UInt8(ascii: "s"): self = .statistics
        case UInt8(ascii: "o"): self = .onDisconnectPut
        default: self = .unknown(Text(String(Unicode.Scalar(letter))))
        }
    }

    init(_ text: Text) {
        switch text {
        case "om": self = .onDisconnectMerge
        case "oc": self = .onDisconnectCancel
        case "auth", "gauth": self = .authenticate
        case "unauth": self = .unauthenticate
        case "appcheck": self = .appCheck
        case "unappcheck", "unappeck": self = .dropAppCheck
        default: self = text.utf8Count == 1 ? Verb(letter: text.firstByte ?? 0) : .unknown(text)
        }
    }

    /// The action when the body does not matter, or nil when it does.
    var actionWithoutBody: Action? {
        switch self {
        case .statistics: .statistics
        case .unauthenticate: .unauthenticate
        case .appCheck: .appCheck
        case .dropAppCheck: .dropAppCheck
        case .unknown(let text): .unknown(text)
        case .listen, .unlisten, .get, .put, .merge: nil
        case .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: nil
        case .authenticate, .notText: nil
        }
    }

    /// The name as it was sent, for the error answer. (`auth` and `gauth` are one.)
    var name: Text {
        switch self {
        case .statistics: "s"
        case .listen: "q"
        case .unlisten: "n"
        case .get: "g"
        case .put: "p"
        case .merge: "m"
        case .onDisconnectPut: "o"
        case .onDisconnectMerge: "om"
        case .onDisconnectCancel: "oc"
        case .authenticate: "auth"
        case .unauthenticate: "unauth"
        case .appCheck: "appcheck"
        case .dropAppCheck: "unappcheck"
        case .unknown(let text): text
        case .notText: ""
        }
    }
}
