import PandoRandom

/// A client on one connection: it sends requests as bytes, and decodes what it receives.
///
///     realtime    handshake ─▶ 101 ─▶ frames
///     REST        request ─▶ response ─▶ request …, or events
final class SimulatedClient {
    enum Decoded {
        /// A message of the realtime protocol.
        case message([UInt8])
        case response(HTTPResponse)
        case event(SentEvent)
    }

    /// A request that was sent.
    struct Sent {
        /// Nil for REST.
        let number: Int?
        let action: ClientAction
    }

    private enum State { case handshaking, frames, responses, events }

    let link: SimulatedLink
    let namespace: String
    let person: Person
    let isRealtime: Bool
    /// Watches everything, from the beginning to the end.
    var isObserver = false
    /// By which the databases know it; nil before its first request has come there.
    var session: UInt64?
    private var state: State
    /// Encrypts and decrypts; nil without TLS.
    private let secure: SecureEnd?
    /// Data that waits until the handshake of TLS is done.
    private var waitingData: [UInt8] = []
    /// It ends its direction when the handshake is done.
    private var endsAfterHandshake = false
    /// It has sent bytes that are not a TLS record.
    private(set) var hasBrokenTLS = false
    /// It has ended its direction while the handshake of TLS was in progress.
    private(set) var hasInterruptedHandshake = false
    /// It has ended its direction after all that it has written.
    private var hasEndedInOrder = false
    /// The server has looked for slow connections while a response was due.
    private var mayBeDisconnectedAsSlow = false
    private var input = InputBuffer()
    private var frames = ServerFrames()
    /// Frames that wait for the end of the handshake; nil for a client that does not wait.
    private var waiting: [UInt8]?
    /// Pings of the protocol (realtime §2.3), and the pongs to them.
    private var pingCount = 0
    private var pongCount = 0
    /// Neither side sends anything more.
    private(set) var isGone = false
    /// It has closed its side, or is about to.
    private(set) var hasEnded = false
    /// The server has ended the connection, in its protocol or by closing it.
    private(set) var wasClosed = false
    private var nextNumber = 1

    /// Requests that have not come to the databases, in their order.
    private var sent: [Sent] = []
    private var arrivedCount = 0
    /// By their numbers; all REST requests have 0.
    private(set) var unanswered: [Int: ClientAction] = [:]
    private var unansweredRESTCount = 0
    /// The listens that the client believes to have.
    private(set) var listens: [(path: [String], query: ReferenceQuery?, tag: Int?)] = []

    /// - Parameter isHasty: A realtime client that sends requests behind its handshake, without waiting for
    ///   the response.
    init(
        _ link: SimulatedLink, in namespace: String, as person: Person, isRealtime: Bool,
        isHasty: Bool = false
    ) {
        self.link = link
        self.namespace = namespace
        self.person = person
        self.isRealtime = isRealtime
        state = isRealtime ? .handshaking : .responses
        secure = link.secure.map { SecureEnd($0) }
        sendRecords()
        guard isRealtime else { return }
        transmit(RequestEncoding.handshake(namespace: namespace))
        sent.append(Sent(number: nil, action: .open))
        if !isHasty { waiting = [] }
    }

    var isStream: Bool { state == .events }
    var unansweredCount: Int { unanswered.count + unansweredRESTCount }
    /// The tag of the next filtered listen.
    var nextTag: Int { nextNumber }

    // MARK: Sending

    /// Sends a request.
    /// - Returns: Its bytes, for the log.
    @discardableResult
    func send(_ action: ClientAction, _ random: inout SeededGenerator) -> [UInt8] {
        guard isRealtime else {
            let request = RequestEncoding.request(action, as: person, in: namespace, &random)
            sent.append(Sent(number: nil, action: action))
            unansweredRESTCount += 1
            transmit(request)
            return request
        }
        switch action {
        case .listen(let path, let query, let tag): listens.append((path, query, tag))
        case .unlisten(let path, _, let tag): listens.removeAll { $0.path == path && $0.tag == tag }
        default: break
        }
        let message = RequestEncoding.message(action, number: nextNumber, as: person)
        sent.append(Sent(number: nextNumber, action: action))
        unanswered[nextNumber] = action
        nextNumber += 1
        write(ClientFrames.message(message, &random))
        return message
    }

    /// Reads the rules, which is no action of the reference.
    func requestRules() {
        unansweredRESTCount += 1
        transmit(RequestEncoding.rulesRequest(in: namespace))
    }

    /// Pings, as clients do that have nothing else to send: with a frame, or in the protocol (realtime §2.3).
    func ping(withFrame isFrame: Bool, _ random: inout SeededGenerator) {
        if isFrame {
            write(ClientFrames.ping(Array("ping".utf8), &random))
        } else {
            pingCount += 1
            write(ClientFrames.message(Array("{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}".utf8), &random))
        }
    }

    private func write(_ frames: [UInt8]) {
        guard !hasEnded else { return }
        if waiting != nil { waiting?.append(contentsOf: frames) } else { transmit(frames) }
    }

    // MARK: TLS

    /// Sends data: encrypted, where the connection speaks TLS and its handshake is done.
    private func transmit(_ data: [UInt8]) {
        guard let secure, let choice = link.secure else { return link.toServer.write(data) }
        guard secure.canSend else { return waitingData += data }
        var rest = data[...]
        while !rest.isEmpty {
            let piece = rest.prefix(choice.recordByteLimit)
            secure.seal(piece)
            rest = rest.dropFirst(piece.count)
        }
        sendRecords()
    }

    private func sendRecords() {
        if let secure { link.toServer.write(secure.takeOutput()) }
    }

    /// Sends nothing more.
    private func endSending() {
        guard let secure, let choice = link.secure, !hasBrokenTLS else {
            hasEndedInOrder = !hasBrokenTLS
            return link.toServer.end()
        }
        guard secure.isHandshakeDone else {
            guard choice.interruptsHandshake else { return endsAfterHandshake = true }
            hasInterruptedHandshake = true
            return link.toServer.end()
        }
        hasEndedInOrder = choice.end != .badRecord
        switch choice.end {
        case .inOrder, .noticeOnly: secure.close()
        case .finOnly: break
        case .badRecord:
            hasBrokenTLS = true
            link.toServer.write(Self.badRecord)
        }
        sendRecords()
        if choice.end == .inOrder || choice.end == .finOnly { link.toServer.end() }
    }

    /// Application data that no key has encrypted.
    private static let badRecord: [UInt8] = [23, 3, 3, 0, 64] + [UInt8](repeating: 0, count: 64)

    /// Decrypts what has arrived.
    /// - Throws: ``BrokenPromise`` where the server breaks TLS.
    private func decrypt(_ bytes: [UInt8]) throws(BrokenPromise) -> [UInt8] {
        guard let secure, !bytes.isEmpty else { return bytes }
        let wasDone = secure.isHandshakeDone
        let received = secure.receive(bytes)
        if let failure = received.failure, !hasBrokenTLS {
            throw BrokenPromise(description: "the server has broken TLS: \(failure)")
        }
        sendRecords()
        if secure.isHandshakeDone, !wasDone {
            transmit(exchange(&waitingData, with: []))
            if endsAfterHandshake { endSending() }
        }
        return received.data
    }

    /// The server has ended the connection.
    /// - Throws: ``BrokenPromise`` where a response is missing, or TLS ends without close_notify.
    private func endOfServer() throws(BrokenPromise) {
        guard !isOwedResponse else {
            throw BrokenPromise(
                description:
                    "connection \(link.number) has closed its side, and gets no response to its request")
        }
        guard let secure, secure.isHandshakeDone, secure.failure == nil, !secure.hasEnded else { return }
        throw BrokenPromise(description: "the server ends TLS without close_notify")
    }

    /// How a client leaves.
    enum End: CaseIterable {
        /// The connection is reset.
        case reset
        /// It closes its side, and reads on.
        case halfClose
        /// It sends a close frame, and then closes its side.
        case closeFrame
    }

    func leave(_ end: End, _ random: inout SeededGenerator) {
        switch end {
        case .reset:
            link.reset()
            isGone = true
        case .halfClose: endSending()
        case .closeFrame:
            if isRealtime { write(ClientFrames.close([0x03, 0xE8], &random)) }
            if waiting == nil { endSending() }
        }
        hasEnded = true
    }

    // MARK: Requests on their way

    /// A REST client that has closed its side after its request: the server has to answer it.
    var isOwedResponse: Bool {
        !isRealtime && hasEndedInOrder && !mayBeDisconnectedAsSlow && unansweredRESTCount > 0
    }

    /// The server looks for connections that are too slow.
    func swept() { if unansweredCount > 0, !isGone { mayBeDisconnectedAsSlow = true } }

    /// The next request has come to the databases.
    func arrived() -> Sent? {
        guard arrivedCount < sent.count else { return nil }
        arrivedCount += 1
        defer {
            if arrivedCount > 64, arrivedCount * 2 > sent.count {
                sent.removeFirst(arrivedCount)
                arrivedCount = 0
            }
        }
        return sent[arrivedCount - 1]
    }

    /// The client has got the answer to a realtime request.
    func answered(_ number: Int, isOK: Bool) {
        guard let action = unanswered.removeValue(forKey: number) else { return }
        if !isOK, case .listen(let path, _, let tag) = action {
            listens.removeAll { $0.path == path && $0.tag == tag }
        }
    }

    /// The server has ended a listen.
    func revoked(_ path: [String], isFiltered: Bool) {
        listens.removeAll { $0.path == path && ($0.tag != nil) == isFiltered }
    }

    // MARK: Receiving

    /// Reads what has arrived, and decodes it.
    /// - Throws: ``BrokenPromise`` for bytes that a server must not send.
    func receive(_ random: inout SeededGenerator) throws(BrokenPromise) -> [Decoded] {
        guard !isGone else { return [] }
        var decoded: [Decoded] = []
        input.append(try decrypt(link.toClient.read(atMost: .max)))
        while input.count > 0, let next = try decode(&random) { decoded += next }
        if link.isReset {
            isGone = true
        } else if link.toClient.hasEndArrived, link.toClient.isQuiet {
            try endOfServer()
            link.toServer.end()
            (isGone, wasClosed) = (true, true)
        }
        return decoded
    }

    /// - Returns: Nil where more bytes are needed.
    private func decode(_ random: inout SeededGenerator) throws(BrokenPromise) -> [Decoded]? {
        switch state {
        case .handshaking:
            guard let response = try HTTPResponse.read(from: &input) else { return nil }
            // A head that comes very slowly is refused.
            guard response.status != 408 else {
                wasClosed = true
                return []
            }
            guard response.status == 101 else {
                throw BrokenPromise(description: "an upgrade is answered with \(response.status)")
            }
            state = .frames
            if let frames = exchange(&waiting, with: nil) {
                transmit(frames)
                if hasEnded { endSending() }
            }
            return []
        case .frames:
            guard let content = try frames.read(from: &input) else { return nil }
            return try receive(content, &random)
        case .responses:
            guard let response = try HTTPResponse.read(from: &input) else { return nil }
            if response.isStream { state = .events }
            unansweredRESTCount -= 1
            if response.closesConnection, !response.isStream { wasClosed = true }
            return [.response(response)]
        case .events:
            guard let bytes = input.prefix(through: "\n\n") else { return nil }
            let event = SentEvent(bytes: bytes)
            _ = input.removeFirst(bytes.count)
            return event.name == "keep-alive" ? [] : [.event(event)]
        }
    }

    private func receive(_ content: ServerFrames.Content, _ random: inout SeededGenerator)
        throws(BrokenPromise)
        -> [Decoded]
    {
        switch content {
        case .message(let message):
            guard message.starts(with: "{\"t\":\"c\",\"d\":{\"t\":\"o\"".utf8) else {
                return [.message(message)]
            }
            // One pong may answer several pings.
            pongCount += 1
            guard pongCount <= pingCount else { throw BrokenPromise(description: "a pong without a ping") }
        case .ping(let payload): write(ClientFrames.pong(payload, &random))
        case .pong: break
        case .close(let payload):
            wasClosed = true
            write(ClientFrames.close(Array(payload.prefix(2)), &random))
            endSending()
            hasEnded = true
        }
        return []
    }
}
