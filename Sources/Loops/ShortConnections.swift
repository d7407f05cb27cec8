import PandoReactor

/// Connections that are over after one response, those of the admin port for one, and which of them is closed
/// when as many are open as may be and another one comes: of those that have sent no complete request, the
/// oldest of the address that has most connections; else the same of those that have their response. A client
/// that opens many and sends nothing, or reads nothing, so keeps no other client away, and closes its own
/// connections first. A connection whose request is being answered stays.
package struct ShortConnections<Connection: AnyObject> {
    package enum Stage {
        /// Its request has not come, or not wholly.
        case silent
        /// Its request is being answered.
        case busy
        /// Its response was written, and is being sent.
        case answered
    }

    private let limit: Int
    /// In the order in which they came; at most ``limit``.
    private var entries: [(connection: Connection, network: AddressNetwork, stage: Stage)] = []

    package init(limit: Int) {
        precondition(limit > 0)
        self.limit = limit
    }

    package var isFull: Bool { entries.count >= limit }

    /// The one to be closed for another one; nil where all are being answered. O(``limit``).
    package var nextToClose: Connection? {
        var counts: [AddressNetwork: Int] = [:]
        for entry in entries { counts[entry.network, default: 0] += 1 }
        return first(in: .silent, counts) ?? first(in: .answered, counts)
    }

    /// The oldest connection in a stage whose address has most of all connections.
    private func first(in stage: Stage, _ counts: [AddressNetwork: Int]) -> Connection? {
        var (first, most): (Connection?, Int) = (nil, 0)
        for entry in entries where entry.stage == stage {
            let count = counts[entry.network] ?? 0
            if count > most { (first, most) = (entry.connection, count) }
        }
        return first
    }

    /// A new connection, which is silent. O(1).
    /// - Parameter peer: Of the socket: clients behind a proxy count as one.
    package mutating func add(_ connection: Connection, from peer: SocketAddress) {
        precondition(!isFull)
        entries.append((connection, AddressNetwork(peer), .silent))
    }

    /// O(``limit``). Nothing for a connection that was removed.
    package mutating func move(_ connection: Connection, to stage: Stage) {
        guard let index = index(of: connection) else { return }
        entries[index].stage = stage
    }

    /// O(``limit``). Nothing for a connection that was removed before.
    package mutating func remove(_ connection: Connection) {
        if let index = index(of: connection) { entries.remove(at: index) }
    }

    private func index(of connection: Connection) -> Int? {
        entries.firstIndex { $0.connection === connection }
    }
}
