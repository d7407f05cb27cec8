import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire

// MARK: - JSON

//  input    size of the pieces (1) │ JSON

/// JSON that is accepted is the same when it is printed and read again, and when it is read as a stream.
@Sendable func checkJSON(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let size = reader.byte()
    let bytes = reader.remainder()
    let whole = try? Node(json: bytes.rawSpan)
    if let whole {
        var printed: [UInt8] = []
        printed.append(json: whole)
        try require((try? Node(json: printed.rawSpan)) == whole, "not the same when it is printed")
        try require((try? stream(printed, inPiecesOf: size)) == whole, "not the same as a stream")
        _ = whole.hash
    }
    let streamed = try? stream(bytes, inPiecesOf: .max)
    try require((try? stream(bytes, inPiecesOf: size)) == streamed, "not the same in pieces of \(size)")
}

private func stream(_ bytes: [UInt8], inPiecesOf size: Int) throws -> Node {
    var parser = NodeStreamParser()
    var window: [UInt8] = []
    let parts = pieces(bytes, of: size)
    for (index, piece) in parts.enumerated() {
        window += piece
        window.removeFirst(try parser.read(window.rawSpan, isLast: index == parts.count - 1))
    }
    if parts.isEmpty { _ = try parser.read(window.rawSpan, isLast: true) }
    return parser.finish()
}

// MARK: - Requests

//  input    a message of the realtime protocol

/// Messages that are accepted name legal locations, and the engine takes them.
@Sendable func checkRequests(_ input: [UInt8]) throws {
    guard let message = try? ClientMessage(parsing: input.rawSpan, nodeLimit: 10_000),
        case .request(let request) = message
    else { return }
    var engine = Engine(access: .open)
    func run(_ operation: Operation) throws {
        let command = Command(session: SessionID(1), credential: .anonymous, time: 1, operation: operation)
        _ = engine.execute(command)
        _ = engine.checkInvariants()
    }
    switch request.action {
    case .put(let write):
        try check(write)
        try run(.put(write))
    case .merge(let base, let writes):
        for write in writes {
            try check(write)
            try require(base.contains(write.target.path), "a write outside of its update")
        }
        try run(.merge(base: base, writes))
    case .transaction(let write, let hash, let wantsCurrent):
        try check(write)
        try run(.transaction(write, expectedHash: hash, wantsCurrentValue: wantsCurrent))
    case .onDisconnectPut(let write):
        try check(write)
        try run(.onDisconnect([write], signIn: 0))
        try run(.endSession)
    case .listen(let listen, _):
        try run(.listen(listen))
        try run(.unlisten(listen.path, listen.query, tag: listen.tag))
    case .get(let path, let query): try run(.get(path, query))
    default: break
    }
}

private func check(_ write: Write) throws {
    try require(write.target.path.count + write.draft.depth <= Limits.pathDepth, "deeper than data may be")
    try require(write.target.path.keys.allSatisfy { Key.isLegal($0.text) }, "an illegal key")
}

// MARK: - Rules

/// Rules that load have a strict form, which loads to the same rules; and they decide about a read and a
/// write.
@Sendable func checkRules(_ input: [UInt8]) throws {
    let strict: [UInt8]
    do throws(InvalidRules) {
        let rules = try Ruleset(loading: input)
        strict = rules.strictJSON
        decide(by: rules)
    } catch {
        try require(!error.problems.isEmpty, "refused without a problem")
        let lines = 1 + input.count { $0 == 0x0A || $0 == 0x0D }
        try require(
            error.problems.allSatisfy { $0.position.line <= lines }, "a position outside of the document")
        return
    }
    try require(
        (try? Ruleset(loading: strict))?.strictJSON == strict, "the strict form is not the same rules")
}

/// With data in which rules find children, numbers and texts.
private let data = Array(#"{"a":{"b":{"c":1}},"x":{"y":"text","z":true},"list":[1,2,3]}"#.utf8)

private func decide(by rules: Ruleset) {
    let root = (try? Node(json: data.rawSpan)) ?? .empty
    var engine = Engine(root: root, access: .loaded(rules))
    let credential = Credential(authVariable: #"{"uid":"ann","token":{"x":[1,"a"]}}"#)
    for path in ["", "a/b", "x/y", "list/1", "new/location"] as [Path] {
        for operation in [Operation.get(path, nil), .put(Write(Target(path), Draft(.string("v"))))] {
            _ = engine.execute(
                Command(session: SessionID(1), credential: credential, time: 1_000, operation: operation))
        }
    }
}
