import PandoEngine
import PandoHTTP

/// What a client of `/connz` asks for.
package struct ConnectionListRequest: Sendable {
    package enum Order: String, CaseIterable, Sendable {
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

    package var order = Order.age
    package var limit = 100

    package static let highestLimit = 1000
    /// Bytes of the connections that one response names.
    package static let responseByteLimit = 4 << 20
    /// Bytes of a text that a client has chosen, of a path or a uid; what is longer ends with `…`.
    package static let textByteLimit = 256
    /// What the parameters may be.
    package static let usage = "?sort= is one of \(Order.names), ?limit= 1 to \(highestLimit)"

    package init() {}

    /// - Returns: nil for values that there are not.
    package init?(_ query: QueryString) {
        if let text = query["sort"] {
            guard let order = text.asciiString.flatMap(Order.init) else { return nil }
            self.order = order
        }
        if let text = query["limit"] {
            guard let limit = text.number(as: Int.self), 1...Self.highestLimit ~= limit else { return nil }
            self.limit = limit
        }
    }
}

/// One session, as its loop knows it.
package struct ConnectionEntry: Sendable {
    package var id: SessionID
    package var transport: StaticString
    package var thread: Int
    package var peer: String?
    package var isSecure: Bool
    package var ageSeconds: Double
    package var idleSeconds: Double
    package var receivedByteCount: Int
    package var sentByteCount: Int
    package var queuedByteCount: Int
    package var heldByteCount: Int
    /// What it is sorted by; the largest first.
    package var key: Double
}

extension SessionID {
    /// Reads what ``hexadecimal`` writes.
    package init?(hexadecimal text: String) {
        guard let value = UInt64(text, radix: 16) else { return nil }
        self.init(value)
    }

    package var hexadecimal: String { String(rawValue, radix: 16) }
}
