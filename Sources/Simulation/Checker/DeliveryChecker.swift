/// What a message of the realtime protocol means to its client.
enum MessageKind {
    case handshake
    case reply(Int, isOK: Bool)
    case revocation([String], isFiltered: Bool)
    case push
}

/// The checker of order: what a client decodes from its bytes is what the databases have released to it, all
/// of it, once and in that order.
struct DeliveryChecker {
    enum Delivery {
        case message([UInt8], MessageKind)
        case response(RESTReply)
        case event(SentEvent)
    }

    private struct Line {
        var deliveries: [(delivery: Delivery, batch: Int)] = []
        /// Those at the front that were decoded.
        var decodedCount = 0
    }

    private var lines: [Int: Line] = [:]
    /// By number of a batch of releases: the state that was the last one behind it.
    private var stateIndexes: [Int] = []

    /// The databases have released something for a connection.
    mutating func released(_ delivery: Delivery, on link: Int) {
        lines[link, default: Line()].deliveries.append((delivery, stateIndexes.count))
    }

    /// All of that since the last call belongs to states up to this one.
    mutating func endBatch(at index: Int) { stateIndexes.append(index) }

    /// How many deliveries of a connection were not decoded.
    func dueCount(on link: Int) -> Int {
        lines[link].map { $0.deliveries.count - $0.decodedCount } ?? 0
    }

    /// A client has decoded something.
    /// - Returns: What it is, and the state that was released with it.
    /// - Throws: ``BrokenPromise`` where something else is next, or nothing.
    mutating func decoded(_ decoded: SimulatedClient.Decoded, on link: Int) throws(BrokenPromise)
        -> (delivery: Delivery, stateIndex: Int)
    {
        guard let line = lines[link], line.decodedCount < line.deliveries.count else {
            throw BrokenPromise(
                description: "connection \(link) got \(decoded.text), which was never released")
        }
        let (next, batch) = line.deliveries[line.decodedCount]
        if let problem = next.contradiction(of: decoded) {
            let rest = line.deliveries[(line.decodedCount + 1)...]
            let isEarly = rest.contains { $0.delivery.contradiction(of: decoded) == nil }
            throw BrokenPromise(
                description: "connection \(link) \(problem)"
                    + (isEarly ? "; it was released later, so the order is wrong" : ""))
        }
        lines[link]?.decodedCount += 1
        if line.decodedCount > 64, line.decodedCount * 2 > line.deliveries.count {
            lines[link]?.deliveries.removeFirst(line.decodedCount + 1)
            lines[link]?.decodedCount = 0
        }
        guard batch < stateIndexes.count else { preconditionFailure("decoded before it was released") }
        return (next, stateIndexes[batch])
    }

    /// The server was started again: all connections are gone.
    mutating func restart() { self = DeliveryChecker() }
}

extension DeliveryChecker.Delivery {
    /// Why something decoded is not this; nil where it is.
    fileprivate func contradiction(of decoded: SimulatedClient.Decoded) -> String? {
        switch (self, decoded) {
        case (.message(let bytes, _), .message(let message)) where bytes == message: nil
        case (.response(let reply), .response(let response)): reply.contradiction(of: response)
        case (.event(let event), .event(let other)) where event == other: nil
        default: "got \(decoded.text), and \(text) is next"
        }
    }

    private var text: String {
        switch self {
        case .message(let bytes, _): String(decoding: bytes.prefix(200), as: UTF8.self)
        case .response(let reply): "\(reply)"
        case .event(let event): String(decoding: event.bytes.prefix(200), as: UTF8.self)
        }
    }
}

extension SimulatedClient.Decoded {
    /// For the log.
    var text: String {
        switch self {
        case .message(let bytes): String(decoding: bytes.prefix(300), as: UTF8.self)
        case .response(let response):
            "\(response.status) \(String(decoding: response.body.prefix(300), as: UTF8.self))"
        case .event(let event): String(decoding: event.bytes.prefix(300), as: UTF8.self)
        }
    }
}
