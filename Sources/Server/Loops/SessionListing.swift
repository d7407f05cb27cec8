import PandoEngine
import PandoHTTP
import PandoReactor
import PandoTime

/// What a client of `/connz` asks for.
struct ConnectionListRequest: Sendable {
    enum Order: String, CaseIterable, Sendable {
        /// The longest connected first.
        case age
        /// The longest silent first.
        case idle
        /// What waits to be sent.
        case queue
        /// Memory that the client makes the server hold.
        case memory
        case received, sent

        static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }
    }

    var order = Order.age
    var limit = 100

    static let highestLimit = 1000
    /// Bytes of the connections that one response names.
    static let responseByteLimit = 4 << 20
    /// Bytes of a text that a client has chosen, of a path or a uid; what is longer ends with `…`.
    static let textByteLimit = 256
    /// What the parameters may be.
    static let usage = "?sort= is one of \(Order.names), ?limit= 1 to \(highestLimit)"

    init() {}

    /// - Returns: nil for values that there are not.
    init?(_ query: QueryString) {
        if let text = query["sort"] {
            guard let order = Order(rawValue: text) else { return nil }
            self.order = order
        }
        if let text = query["limit"] {
            guard let limit = Int(text), 1...Self.highestLimit ~= limit else { return nil }
            self.limit = limit
        }
    }
}

/// One session, as its loop knows it.
struct ConnectionEntry: Sendable {
    var id: SessionID
    var transport: StaticString
    var thread: Int
    var peer: String?
    var isSecure: Bool
    var ageSeconds: Double
    var idleSeconds: Double
    var receivedByteCount: Int
    var sentByteCount: Int
    var queuedByteCount: Int
    var heldByteCount: Int
    /// What it is sorted by; the largest first.
    var key: Double
}

extension SessionID {
    /// Reads what ``hexadecimal`` writes.
    init?(hexadecimal text: String) {
        guard let value = UInt64(text, radix: 16) else { return nil }
        self.init(value)
    }

    var hexadecimal: String { String(rawValue, radix: 16) }
}

/// Lists the sessions of one loop. Confined to the loop.
struct SessionListing {
    /// Sessions that are looked at in one tick.
    private static let listedPerTick = 1024

    let table: SessionTable
    let loop: EventLoop
    /// The loop's number.
    let thread: Int

    /// Lists the sessions that sort first.
    /// - Parameter finish: Called on this loop.
    func list(_ request: ConnectionListRequest, finish: @escaping @Sendable ([ConnectionEntry], Int) -> Void)
    {
        list(request, from: 0, [], 0, finish)
    }

    private func list(
        _ request: ConnectionListRequest, from start: Int, _ found: [(key: Double, id: SessionID)],
        _ count: Int,
        _ finish: @escaping @Sendable ([ConnectionEntry], Int) -> Void
    ) {
        var (found, count) = (found, count)
        let end = min(table.slots.count, start + Self.listedPerTick)
        if start < end {
            for case let session? in table.slots[start..<end] {
                count += 1
                found.append((session.sortKey(request.order), session.id))
            }
        }
        found.sort { $0.key > $1.key }
        found.removeLast(max(0, found.count - request.limit))
        guard end < table.slots.count else {
            // One system call for each of them.
            return finish(found.compactMap { table[$0.id]?.listed(by: $0.key, thread: thread) }, count)
        }
        loop.schedule(after: .zero) { [found, count] in list(request, from: end, found, count, finish) }
    }
}

extension LoopSession {
    fileprivate func sortKey(_ order: ConnectionListRequest.Order) -> Double {
        let channel = (self as? ChannelSession)?.channel
        return switch order {
        case .age: Double((services.loop.now - opened).nanosecondCount)
        case .idle: Double((services.loop.now - lastHeard).nanosecondCount)
        case .queue: Double(channel?.outboundByteCount ?? 0)
        case .memory: Double(heldByteCount)
        case .received: Double((self as? ChannelSession)?.receivedByteCount ?? 0)
        case .sent: Double(channel?.writtenByteCount ?? 0)
        }
    }

    fileprivate func listed(by key: Double, thread: Int) -> ConnectionEntry {
        let own = self as? ChannelSession
        let transport: StaticString =
            switch self {
            case is WebSocketSession: "websocket"
            case is PollingSession: "long_polling"
            default: "http"
            }
        let now = services.loop.now
        return ConnectionEntry(
            id: id, transport: transport, thread: thread, peer: peerAddress?.description,
            isSecure: own?.channel.tlsFacts != nil, ageSeconds: Double((now - opened).nanosecondCount) / 1e9,
            idleSeconds: Double((now - lastHeard).nanosecondCount) / 1e9,
            receivedByteCount: own?.receivedByteCount ?? 0, sentByteCount: own?.channel.writtenByteCount ?? 0,
            queuedByteCount: own?.channel.outboundByteCount ?? 0, heldByteCount: heldByteCount, key: key)
    }
}
