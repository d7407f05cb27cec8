/// Connections that are over after one response, those of the admin port for one, and which of them is closed
/// when as many are open as may be and another one comes: the oldest that has sent no complete request, else
/// the oldest that has its response. A client that opens many and sends nothing, or reads nothing, so keeps
/// no other client away. A connection whose request is being answered stays.
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
    private var entries: [(connection: Connection, stage: Stage)] = []

    package init(limit: Int) {
        precondition(limit > 0)
        self.limit = limit
    }

    package var isFull: Bool { entries.count >= limit }

    /// The one to be closed for another one; nil where all are being answered.
    package var leastUseful: Connection? {
        (entries.first { $0.stage == .silent } ?? entries.first { $0.stage == .answered })?.connection
    }

    /// A new connection, which is silent. O(1).
    package mutating func add(_ connection: Connection) {
        precondition(!isFull)
        entries.append((connection, .silent))
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
