import PandoReactor

/// Every connection keeps `inFlight` requests under way and waits for each answer: echoes, and writes with
/// their acknowledgements. Each connection writes a path of its own.
final class RoundTripLoad: Load {
    private struct Lane {
        /// The last request's number; they begin at 1.
        var sent = 0
        /// The last answer's number: answers come in the order of requests (realtime §6.1).
        var answered = 0
        /// When the request with the number n was sent, at n modulo the count.
        var starts: [MonotonicTime]
    }

    let dialect: WireProtocol
    let connectionCount: Int
    private let inFlight: Int
    private let stampByteCount: Int
    private var lanes: [Lane]
    private var paths: [String]
    private var request: [UInt8] = []
    private var hint = 0
    private var session: Session?
    private var wrongCount = 0
    private(set) var deliveryCount = 0
    private(set) var checksum: UInt64 = 0

    init(_ dialect: WireProtocol, connections: Int, inFlight: Int, stampByteCount: Int) {
        self.dialect = dialect
        self.connectionCount = connections
        self.inFlight = inFlight
        self.stampByteCount = stampByteCount
        let starts = Array(repeating: MonotonicTime.now, count: inFlight)
        lanes = Array(repeating: Lane(starts: starts), count: connections)
        paths = (0..<connections).map { "bench/writer\($0)" }
    }

    /// How long a request's text is, with a number of six digits.
    static func requestByteCount(_ dialect: WireProtocol, stampByteCount: Int) -> Int {
        var request: [UInt8] = []
        dialect.appendRequest(
            100_000, path: "bench/writer10", stampByteCount: stampByteCount, to: &request)
        return request.count
    }

    func listenedPath(of index: Int) -> String? { nil }

    func begin(_ session: Session) {
        self.session = session
        for client in session.clients {
            for _ in 0..<inFlight { send(client, session) }
        }
    }

    private func send(_ client: Client, _ session: Session) {
        guard let start = session.start() else { return }
        let index = client.index
        lanes[index].sent += 1
        let number = lanes[index].sent
        lanes[index].starts[number % inFlight] = start
        request.removeAll(keepingCapacity: true)
        dialect.appendRequest(
            number, path: paths[index], stampByteCount: stampByteCount, to: &request)
        client.send(request)
    }

    func received(_ text: RawSpan, by client: Client) {
        guard let session else { return }
        let index = client.index
        let expected = lanes[index].answered + 1
        guard expected <= lanes[index].sent,
            dialect.answered(text, stampByteCount: stampByteCount, hint: &hint) == expected
        else {
            wrongCount += 1
            return session.fail("connection \(index): an answer that is not the one to request \(expected)")
        }
        lanes[index].answered = expected
        deliveryCount += 1
        checksum &+= UInt64(expected)
        session.record(since: lanes[index].starts[expected % inFlight])
        session.complete()
        send(client, session)
    }

    func problems(sent: Int) -> [String] {
        deliveryCount == sent && wrongCount == 0
            ? [] : ["\(sent) requests, but \(deliveryCount) right answers and \(wrongCount) wrong ones"]
    }
}
