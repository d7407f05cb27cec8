import PandoBytes
import PandoEngine
import PandoRandom
import PandoRules
import PandoTree

extension SeededGenerator {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    mutating func pick<C: RandomAccessCollection>(_ choices: C) -> C.Element {
        choices.randomElement(using: &self)!
    }
}

extension Node {
    init(_ json: String) { self = try! Node(json: Array(json.utf8).rawSpan) }
}

extension Path {
    init(text: String) { self.init(stringLiteral: text) }
}

extension Draft {
    init(_ json: String) {
        self = try! withCursor(over: Array(json.utf8).rawSpan) { cursor throws(MalformedJSON) in
            var parser = DraftParser(JSONReader(cursor))
            let draft = try parser.readDraft()
            precondition(parser.reader.invalidData == nil, "\(parser.reader.invalidData!)")
            return draft
        }
    }
}

extension Query {
    init(_ json: String) {
        self = try! withCursor(over: Array(json.utf8).rawSpan) { cursor throws(MalformedJSON) in
            var reader = JSONReader(cursor)
            let query = try Query(reading: &reader)
            precondition(reader.invalidData == nil, "\(reader.invalidData!)")
            return query
        }
    }
}

extension Write {
    /// A final `.priority` in the path means the priority.
    init(_ path: String, _ json: String) {
        self.init(try! Target(wire: Text(path)), Draft(json))
    }
}

/// A class around an engine, which cannot be copied.
final class Held {
    var engine: Engine
    init(_ engine: consuming Engine) { self.engine = engine }
}

extension Engine {
    /// The session's listens that a credential may not read, found in parts of a few.
    func listens(of session: SessionID, deniedTo credential: Credential, at time: Int64) -> [Listen] {
        var cursor = listensToCheck(of: session)
        var denied: [Listen] = []
        while !cursor.isDone {
            denied += listens(of: session, deniedTo: credential, at: time, from: &cursor, atMost: 3)
        }
        return denied.sorted { $0.path != $1.path ? $0.path < $1.path : $0.tag ?? .min < $1.tag ?? .min }
    }
}

/// An engine that tables talk to in a few words, and that answers with text: one line a push, then the reply.
///
///     S1 d a/b {"x":1}        an overwrite, untagged
///     S1#7 m a {"b":1,"c":2}  a merge, to the listen with tag 7
struct Scene {
    private let held: Held
    var credential = Credential.anonymous
    var time: Int64 = 1000
    /// Everything that had to be made durable.
    var records: [EngineRecord] = []

    init(_ json: String = "null", access: Access = .open) {
        held = Held(Engine(root: Node(json), access: access))
    }

    var engine: Engine {
        _read { yield held.engine }
        _modify { yield &held.engine }
    }

    @discardableResult
    mutating func run(_ session: UInt64, _ operation: PandoEngine.Operation) -> [String] {
        let session = SessionID(session)
        let hadQueue = engine.hasQueue(session)
        let (delta, effects) = engine.execute(
            Command(session: session, credential: credential, time: time, operation: operation))
        let records = delta.records(hadQueue: hadQueue, by: credential)
        precondition(
            records.isEmpty != delta.needsJournal(hadQueue: hadQueue), "records, and no word of them")
        if effects.isRedundant {
            precondition(effects.pushes.isEmpty, "a push without a change")
        } else {
            self.records += records
        }
        return effects.lines
    }

    @discardableResult
    mutating func listen(
        _ session: UInt64, _ path: Path, _ query: String? = nil, tag: Int64? = nil, hash: String? = nil
    ) -> [String] {
        run(
            session,
            .listen(Listen(path: path, query: query.map { Query($0) }, tag: tag, hash: hash.map { Text($0) }))
        )
    }

    @discardableResult
    mutating func unlisten(_ session: UInt64, _ path: Path, _ query: String? = nil, tag: Int64? = nil)
        -> [String]
    {
        run(session, .unlisten(path, query.map { Query($0) }, tag: tag))
    }

    @discardableResult
    mutating func put(
        _ session: UInt64, _ path: String, _ json: String, hash: String? = nil,
        wantsCurrentValue: Bool = false
    ) -> [String] {
        let write = Write(path, json)
        guard let hash else { return run(session, .put(write)) }
        return run(
            session, .transaction(write, expectedHash: Text(hash), wantsCurrentValue: wantsCurrentValue))
    }

    @discardableResult
    mutating func merge(_ session: UInt64, _ base: String, _ entries: [(String, String)]) -> [String] {
        run(session, .merge(base: Path(text: base), entries.map { Write(base + "/" + $0.0, $0.1) }))
    }

    var tree: String { engine.root.description }
}

extension Push {
    /// What is sent: of a push for many listens of one session, one for each that differs.
    var messages: [Push] {
        guard case .listens(let changed) = body else { return [self] }
        var messages: [Push] = []
        changed.forEach { path, node in
            var message = self
            message.body = .overwrite(path, node)
            messages.append(message)
        }
        return messages
    }
}

extension Effects {
    var lines: [String] {
        var lines: [String] = []
        for push in pushes.flatMap(\.messages) {
            let body =
                switch push.body {
                case .overwrite(let path, let node): "d \(path.wireText) \(node)"
                case .merge(let path, let entries):
                    "m \(path.wireText) {"
                        + entries.map { "\"\($0.path.wireText)\":\($0.node)" }.joined(separator: ",") + "}"
                case .rangeMerge(let path, let ranges): "rm \(path.wireText) \(ranges)"
                case .initial(let state): "initial \(state.path.wireText)"
                case .listens: ""
                }
            for session in push.recipients.joined() { lines.append("S\(session.rawValue) \(body)") }
            for recipient in push.taggedRecipients {
                lines.append("S\(recipient.session.rawValue)#\(recipient.tag) \(body)")
            }
        }
        switch result {
        case nil: break
        case .ok: lines.append("ok")
        case .listening: lines.append("ok {}")
        case .data(let node): lines.append("ok \(node)")
        case .filtered(let node, let query): lines.append("ok \(query.result(over: node))")
        case .permissionDenied: lines.append("permission_denied")
        case .dataStale(nil): lines.append("datastale")
        case .dataStale(let current?): lines.append("datastale \(current.node) \(current.hash)")
        case .failed, .limitExceeded: lines.append("failed")
        }
        return lines
    }
}
