import PandoBytes
import PandoEngine
import PandoRules
import PandoServer
import PandoSimulatedDisk

// What clients ask, as messages and requests; the checker is told of each.

extension Simulation {
    func nextSession() -> SessionID {
        sessionCount += 1
        // The generation above, the loop's number and the slot below: as an I/O loop names its connections.
        return SessionID(1 << 32 | sessionCount)
    }

    private static func credential(_ person: Person) -> Credential {
        switch person {
        case .nobody: .anonymous
        case .user: Credential(authVariable: #"{"uid":"u"}"#)
        case .admin: .admin
        }
    }

    static func head(_ method: String, _ target: String, _ fields: String = "") -> [UInt8] {
        Array("\(method) \(target) HTTP/1.1\r\nHost: simulated\r\n\(fields)\r\n".utf8)
    }

    @discardableResult
    func open(_ person: Person, in namespace: String) -> UInt64 {
        let session = nextSession()
        note("\(session.rawValue & 0xFFFF) opens \(namespace) as \(person)")
        server?.open(session, namespace: namespace, as: Self.credential(person))
        var client = Client(session: session.rawValue, namespace: namespace, person: person)
        client.isObserver = person == .admin
        checker.open(client)
        return session.rawValue
    }

    func ask(_ action: Action, of session: UInt64) throws {
        guard let client = checker.clients[session], server?.isPaused == false else { return }
        let number = checker.ask(action, of: session)
        let message = "{\"t\":\"d\",\"d\":{\"r\":\(number),\(Self.body(action))}}"
        note("\(session & 0xFFFF) asks \(message.prefix(300))")
        try handOn(Array(message.utf8), action, in: session, as: Self.credential(client.person))
    }

    func close(_ session: UInt64) {
        note("\(session & 0xFFFF) goes")
        checker.close(session)
        if flooders.remove(session) != nil { totals.hangUps += 1 }
        handOnEnd(of: session)
    }

    func askOverREST(_ action: Action, _ person: Person, _ namespace: String) {
        guard let server, !server.isPaused else { return }
        askOverREST(action, nextSession(), person, namespace, server)
    }

    func askOverREST(
        _ action: Action, _ session: SessionID, _ person: Person, _ namespace: String,
        _ server: SteppedServer<SimulatedDisk>
    ) {
        let (head, body): ([UInt8], String)
        switch action {
        case .restPut(let path, let value, let expected, let isWrong):
            let tag = expected.map { "if-match: \(isWrong ? "wrong" : Hash.tag(of: $0))\r\n" } ?? ""
            (head, body) = (Self.head("PUT", "/\(path.joined(separator: "/")).json", tag), value.json)
        case .rules(let rules): (head, body) = (Self.head("PUT", "/.settings/rules.json"), rules.source)
        case .restGet(let path): (head, body) = (Self.head("GET", "/\(path.joined(separator: "/")).json"), "")
        default: return
        }
        note("\(session.rawValue & 0xFFFF) asks over REST, \(namespace), \(person): \(action)")
        checker.askOverREST(action, session.rawValue, person, namespace)
        do {
            try server.send(
                head: head, body: Array(body.utf8), namespace: namespace, in: session,
                as: Self.credential(person))
        } catch {
            preconditionFailure("our own request is no HTTP: \(error)")
        }
    }

    private static func body(_ action: Action) -> String {
        func path(_ keys: [String]) -> String { "\"p\":\"/\(keys.joined(separator: "/"))\"" }
        func filter(_ query: ReferenceQuery?, _ tag: Int?) -> String {
            guard let query, let tag else { return "" }
            return ",\"q\":\(query.json),\"t\":\(tag)"
        }
        switch action {
        case .put(let keys, let draft): return "\"a\":\"p\",\"b\":{\(path(keys)),\"d\":\(draft.json)}"
        case .compareAndSet(let keys, let expected, let isWrong, let draft):
            let hash = isWrong ? "wrong" : Hash.simple(of: expected)
            return "\"a\":\"p\",\"b\":{\(path(keys)),\"d\":\(draft.json),\"h\":\"\(hash)\"}"
        case .merge(let base, let entries):
            let members = entries.map { "\"\($0.path.joined(separator: "/"))\":\($0.draft.json)" }
            return "\"a\":\"m\",\"b\":{\(path(base)),\"d\":{\(members.joined(separator: ","))}}"
        case .get(let keys, let query):
            return "\"a\":\"g\",\"b\":{\(path(keys)),\"q\":\(query?.json ?? "{}")}"
        case .listen(let keys, let query, let tag):
            return "\"a\":\"q\",\"b\":{\(path(keys))\(filter(query, tag)),\"h\":\"\"}"
        case .unlisten(let keys, let query, let tag):
            return "\"a\":\"n\",\"b\":{\(path(keys))\(filter(query, tag))}"
        case .onDisconnect(let keys, let draft):
            return "\"a\":\"o\",\"b\":{\(path(keys)),\"d\":\(draft.json)}"
        case .cancelOnDisconnect(let keys): return "\"a\":\"oc\",\"b\":{\(path(keys)),\"d\":null}"
        case .open, .close, .restPut, .restGet, .rules: return ""
        }
    }
}
