import PandoEngine
import PandoReactor
import PandoTime

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
