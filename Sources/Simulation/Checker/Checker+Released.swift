// What the databases release: messages, responses, events.

extension Checker {
    /// A message of the realtime protocol.
    /// - Throws: ``BrokenPromise``.
    mutating func released(_ message: [UInt8], to session: UInt64, at milliseconds: Int64) throws
        -> MessageKind
    {
        let value: Value
        do throws(NoJSON) { value = try Value(json: message) } catch {
            throw BrokenPromise(description: "no JSON: \(String(decoding: message, as: UTF8.self))")
        }
        let content = value["d"]
        if value["t"].text == "c" {
            guard content["t"].text == "h", let time = content["d"]["ts"].number else {
                throw BrokenPromise(description: "unexpected control message \(value.json)")
            }
            try settle(session, nil, at: milliseconds) { [isTimeKnown] entry, _ in
                isTimeKnown && entry.time != Int64(time)
                    ? "the handshake says \(Int64(time)), it is \(entry.time ?? 0)" : nil
            }
            return .handshake
        }
        if let number = content["r"].number {
            let body = content["b"]
            try answer(session, Int(number), body, at: milliseconds)
            return .reply(Int(number), isOK: body["s"].text == "ok")
        }
        let body = content["b"]
        guard let path = body["p"].text.map(Self.keys) else { return .push }
        switch content["a"].text {
        case "d":
            replicas[session]?.receive([(path, body["d"].pruned)], tag: body["t"].number.map { Int($0) })
        case "m":
            let entries = body["d"].members.map { (path: path + Self.keys($0.key), value: $0.value.pruned) }
            replicas[session]?.receive(entries, tag: body["t"].number.map { Int($0) })
        case "c":
            let isFiltered = body["q"] != .nothing
            replicas[session]?.revoke(path, isFiltered: isFiltered)
            return .revocation(path, isFiltered: isFiltered)
        default: throw BrokenPromise(description: "unexpected push \(value.json)")
        }
        return .push
    }

    /// An event of an event stream.
    mutating func released(_ event: SentEvent, to session: UInt64) { replicas[session]?.receive(event) }

    private static func keys(_ path: String) -> [String] {
        path.split(separator: "/").map(String.init)
    }

    private mutating func answer(_ session: UInt64, _ number: Int, _ body: Value, at milliseconds: Int64)
        throws
    {
        let status = body["s"].text ?? "?"
        let isFull = status == "unavailable"
        let next = bound == nil ? posted.first { !$0.isClose } : waiting.next(of: session, number: number)
        if let next, next.session == session {
            switch next.action {
            case .listen(let path, _, let tag):
                replicas[session]?.answered(number, path, tag, isOn: status == "ok")
            case .unlisten: replicas[session]?.forgetWhatIsAsked()
            default: break
            }
        }
        try settle(session, number, isRefusedForSpace: isFull, at: milliseconds) { _, expected in
            let isRight =
                switch expected {
                case .ok, .none: status == "ok"
                case .data(let value): status == "ok" && body["d"].pruned == value
                case .denied: status == "permission_denied"
                case .stale: status == "datastale"
                case .diskFull: isFull
                }
            return isRight ? nil : "answered \(body.json), expected \(expected)"
        }
    }

    /// A response.
    /// - Throws: ``BrokenPromise``.
    mutating func released(_ reply: RESTReply, to session: UInt64, at milliseconds: Int64) throws {
        let isFull = if case .diskFull = reply { true } else { false }
        let isOpen = if case .stream = reply { true } else { false }
        let next = bound == nil ? posted.first { !$0.isClose } : waiting.next(of: session, number: nil)
        if next?.session == session, next?.isStream == true, !isOpen { replicas[session] = nil }
        let key: String? = if case .pushed(let key) = reply { key } else { nil }
        try settle(session, nil, key: key, isRefusedForSpace: isFull, at: milliseconds) { entry, expected in
            let isRight =
                switch (expected, reply) {
                case (.data(let value), .data(let got)): value == got.pruned
                case (.ok, .stream): entry.isStream
                case (.ok, .ok), (.ok, .data), (.ok, .pushed), (.denied, .denied), (.stale, .stale),
                    (.diskFull, .diskFull):
                    !entry.isStream || expected != .ok
                default: false
                }
            return isRight ? nil : "answered \(reply), expected \(expected)"
        }
    }
}
