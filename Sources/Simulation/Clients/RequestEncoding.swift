import PandoRandom

/// Requests as the bytes that clients send.
enum RequestEncoding {
    /// The handshake of a WebSocket (RFC 6455 §4.1).
    static func handshake(namespace: String) -> [UInt8] {
        head(
            "GET", "/.ws?v=5&ns=\(namespace)",
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: c2ltdWxhdGVkIGNsaWVudA==\r\n")
    }

    // MARK: Realtime

    /// A request of the realtime protocol.
    static func message(_ action: ClientAction, number: Int, as person: Person) -> [UInt8] {
        Array("{\"t\":\"d\",\"d\":{\"r\":\(number),\(body(action, person))}}".utf8)
    }

    private static func body(_ action: ClientAction, _ person: Person) -> String {
        func path(_ keys: [String]) -> String { "\"p\":\"/\(keys.joined(separator: "/"))\"" }
        func filter(_ query: ReferenceQuery?, _ tag: Int?) -> String {
            guard let query, let tag else { return "" }
            return ",\"q\":\(query.json),\"t\":\(tag)"
        }
        switch action {
        case .authenticate: return "\"a\":\"auth\",\"b\":{\"cred\":\"\(person)\"}"
        case .put(let keys, let draft): return "\"a\":\"p\",\"b\":{\(path(keys)),\"d\":\(draft.json)}"
        case .compareAndSet(let keys, let expected, let isWrong, let draft):
            let hash = isWrong ? "wrong" : ValueHash.simple(of: expected)
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
        case .open, .close, .restPut, .restPatch, .restPost, .restGet, .stream, .rules:
            preconditionFailure("no request of the realtime protocol: \(action)")
        }
    }

    // MARK: REST

    /// A REST request.
    /// - Parameter random: Chooses between forms that mean the same.
    static func request(
        _ action: ClientAction, as person: Person, in namespace: String, _ random: inout SeededGenerator
    ) -> [UInt8] {
        var query = "ns=\(namespace)" + (person == .anonymous ? "" : "&auth=\(person)")
        func target(_ path: [String]) -> String { "/\(path.joined(separator: "/")).json?\(query)" }
        switch action {
        case .restPut(let path, let value, let expected, let isWrong, let isDelete):
            let tag = expected.map { "if-match: \(isWrong ? "wrong" : ValueHash.tag(of: $0))\r\n" } ?? ""
            if isDelete { return head("DELETE", target(path), tag) }
            return request("PUT", target(path), tag, value.json, &random)
        case .restPatch(let path, let entries):
            let members = entries.map { "\"\($0.path.joined(separator: "/"))\":\($0.value.json)" }
            return request("PATCH", target(path), "", "{\(members.joined(separator: ","))}", &random)
        case .restPost(let path, let value, _):
            return request("POST", target(path), "", value.json, &random)
        case .restGet(let path, let filter):
            if let filter {
                query +=
                    "&orderBy=%22$key%22&limitTo\(filter.isFromStart ? "First" : "Last")=\(filter.limit)"
            }
            return head(
                "GET", target(path), filter == nil && random.chance(50) ? "x-firebase-etag: true\r\n" : "")
        case .stream(let path): return head("GET", target(path), "accept: text/event-stream\r\n")
        case .rules(let rules):
            return request("PUT", "/.settings/rules.json?\(query)", "", rules.source, &random)
        case .open, .authenticate, .put, .compareAndSet, .merge, .get, .listen, .unlisten, .onDisconnect,
            .cancelOnDisconnect, .close:
            preconditionFailure("no REST request: \(action)")
        }
    }

    /// A read of the rules, by an administrator.
    static func rulesRequest(in namespace: String) -> [UInt8] {
        head("GET", "/.settings/rules.json?ns=\(namespace)&auth=admin")
    }

    private static func request(
        _ method: String, _ target: String, _ fields: String, _ body: String, _ random: inout SeededGenerator
    ) -> [UInt8] {
        guard !body.isEmpty, random.chance(20) else {
            return head(method, target, fields + "content-length: \(body.utf8.count)\r\n") + body.utf8
        }
        let bytes = Array(body.utf8)
        let cut = Int.random(in: 0..<bytes.count, using: &random)
        var request = head(method, target, fields + "transfer-encoding: chunked\r\n")
        // An empty chunk ends the body.
        for chunk in [bytes[..<cut], bytes[cut...]] where !chunk.isEmpty {
            request += Array("\(String(chunk.count, radix: 16))\r\n".utf8) + chunk + Array("\r\n".utf8)
        }
        request += Array("0\r\n\r\n".utf8)
        return request
    }

    private static func head(_ method: String, _ target: String, _ fields: String = "") -> [UInt8] {
        Array("\(method) \(target) HTTP/1.1\r\nHost: simulated\r\n\(fields)\r\n".utf8)
    }
}
