import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoReactor

// Requests of long polling (realtime §1.5) on their way to their session, and its answers.

extension HTTPConnection {
    private static let longPollingPath: StaticString = "/.lp"

    /// `/.lp`, with or without slashes behind it.
    func isLongPolling(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.span.hasPrefix(Self.longPollingPath) else { return false }
        return path.dropFirst(Self.longPollingPath.utf8CodeUnitCount).allSatisfy { $0 == UInt8(ascii: "/") }
    }

    /// Takes a request of long polling.
    /// - Returns: Whether what follows it is to be looked at here.
    func poll(_ head: RequestHead, _ bytes: borrowing MutableRawSpan, _ offset: Int) -> Bool {
        var context = ResponseContext(head, dateLine: owner.dateLine)
        // A script is loaded without a body; behind one that is not read nothing can be.
        let hasBody = head.framing != .none && head.framing != .length(0)
        // A proxy's connection that has moved so often is given up in favour of a new one.
        if hasBody || moveCount >= Self.moveLimit { context.keepsAlive = false }
        let pending = PendingRequest(context, began: owner.loop.now)
        if channel.isReserved {
            refuseForWantOfConnections(pending)
            return true
        }
        // HEAD would take an answer and not deliver it.
        guard head.method == .get else {
            pending.context.keepsAlive = false
            refuse(.methodNotAllowed, allowing: "GET", pending)
            return true
        }
        guard !hasBody else {
            refuse(.badRequest, pending)
            return true
        }
        let query = head.query(plusIsSpace: false)
        let request: LongPollingRequest
        do throws(LongPollingRequest.Malformed) {
            request = try LongPollingRequest(query)
        } catch {
            refuse(error, pending)
            return true
        }
        stage = .answering(pending)
        switch request {
        case .start(let start): owner.startPolling(start, host: head.authorityBytes, on: self)
        case .disconnectPage(let address):
            var page: [UInt8] = []
            page.append(disconnectPage: address.id.rawValue, password: address.password)
            send(.verbatim(page, contentType: "text/html; charset=utf-8", context), pending)
        case .poll(let poll):
            guard let loop = otherLoop(of: poll.address.id) else {
                receive(poll, query, pending)
                return true
            }
            owner.move(self, head, rest: bytes.bytes.extracting(offset..<bytes.byteCount), to: loop)
            return false
        case .disconnect(let address):
            guard let loop = otherLoop(of: address.id) else {
                find(address) { session in session?.disconnect() }
                send(.verbatim([], contentType: "text/plain; charset=utf-8", context), pending)
                return true
            }
            owner.move(self, head, rest: bytes.bytes.extracting(offset..<bytes.byteCount), to: loop)
            return false
        }
        return true
    }

    /// The session is looked up before anything else of the request is read.
    private func receive(_ poll: LongPollingRequest.Poll, _ query: QueryString, _ pending: PendingRequest) {
        find(poll.address) { session in
            guard let session else { return answerClosed() }
            do throws(LongPollingRequest.Malformed) {
                let segments = try LongPollingRequest.segments(query)
                session.receive(poll, segments, on: self)
            } catch {
                refuse(error, pending)
            }
        }
    }

    private func refuse(_ error: LongPollingRequest.Malformed, _ pending: PendingRequest) {
        send(
            .error(.badRequest, text: "missing or malformed parameter: \(error.parameter)", pending.context),
            pending)
    }

    /// The number of the loop where a session is, if that is another than ours.
    func otherLoop(of id: SessionID) -> UInt8? {
        id.loop != owner.index && Int(id.loop) < owner.allLoops.count ? id.loop : nil
    }

    private func find(_ address: LongPollingRequest.Address, _ body: (LongPollingSession?) -> Void) {
        guard let session = owner.polling(address.id), session.isPassword(address.password) else {
            return body(nil)
        }
        body(session)
    }

    private func refuse(
        _ status: HTTPStatus, allowing methods: StaticString? = nil, _ pending: PendingRequest
    ) {
        send(.error(status, text: "\(status.reasonPhrase)", allowing: methods, pending.context), pending)
    }

    // MARK: To and from another loop

    /// Moves of one connection between loops, each of which makes work; then it is closed behind its answer.
    private static let moveLimit = 256

    /// The channel was taken away: nothing is left here.
    func leaveForOtherLoop() {
        stage = .ended
        dropAhead()
        // Of answers to what was sent ahead: they may be on their way still, and to send them twice does no
        // harm.
        settleDeliveries(.lost)
        leave()
    }

    /// The request that another loop has read, and what came behind it.
    func goOn(with moved: MovedConnection) {
        lastHeard = owner.loop.now
        moveCount = moved.moveCount
        channel.write(moved.unsent.rawSpan)
        owner.requestBegan(on: self)
        var bytes = moved.rest
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        var offset = 0
        if isRealtime(moved.head.pathBytes) {
            upgrade(moved.head, &raw, offset)
        } else if poll(moved.head, raw, offset) {
            read(&raw, from: &offset)
        }
    }

    // MARK: Answers

    /// A poll of the session waits here.
    func holdPoll(of session: LongPollingSession) {
        polling = session
    }

    /// It is about to be answered, or need not be.
    func releasePoll() {
        polling = nil
    }

    /// Answers the request under way.
    func answer(_ answer: PollAnswers.Answer, of session: LongPollingSession) {
        sendScripts(answer.scripts)
        channel.remembersAcknowledgedBytes = true
        deliveries.append(Delivery(session, answer.numbers, end: channel.writtenByteCount))
        // What is written to a connection that is going is not sent.
        if !channel.isOpen { settleDeliveries(.lost) }
        endAnswer()
    }

    /// The session that was asked for is over, or was never.
    func answerClosed() {
        var script: [UInt8] = []
        script.append(closeCommand: nil)
        sendScripts([SharedBytes(script)])
        endAnswer()
    }

    private func sendScripts(_ scripts: [SharedBytes]) {
        guard case .answering(let pending) = stage else { return }
        var head: [UInt8] = []
        head.append(statusLine: .ok)
        head.append(field: "Content-Type", "application/javascript; charset=utf-8")
        head.append(field: "X-Content-Type-Options", "nosniff")
        head.append(field: "Cache-Control", "no-store")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head += pending.context.dateLine
        head.append(field: "Content-Length", decimal: UInt64(scripts.reduce(0) { $0 + $1.count }))
        head.append(
            pending.context.keepsAlive
                ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n" as StaticString)
        beginOutputPace()
        channel.write(head.rawSpan)
        for script in scripts { channel.write(script) }
    }

    private func endAnswer() {
        guard case .answering(let pending) = stage else { return }
        endAnswer(closes: !pending.context.keepsAlive)
    }

    /// Whether the next request must wait until the client has taken what it was answered: where that may be
    /// for a session of another loop, what is not sent by then is copied there.
    var mustDrain: Bool {
        (moveCount > 0 || channel.remembersAcknowledgedBytes) && channel.isOpen
            && channel.outboundByteCount > owner.loop.configuration.outboundLowWaterByteCount
    }

    /// The client has taken nearly all: its next request is looked at.
    func goOnIfDrained() {
        guard case .draining = stage else { return }
        endAnswer(closes: endsAfterAnswer)
    }

    // MARK: Deliveries

    /// Responses that were written here, of which it is not known whether the client has received them.
    struct Delivery {
        weak var session: LongPollingSession?
        let numbers: [Int]
        /// Of all that was written here, the byte behind them.
        let end: Int
        /// The client's machine has them.
        var isAcknowledged = false

        init(_ session: LongPollingSession, _ numbers: [Int], end: Int) {
            self.session = session
            self.numbers = numbers
            self.end = end
        }
    }

    /// The client has received what was written here, or has not and never will.
    func settleDeliveries(_ outcome: PollAnswers.Delivery) {
        guard !deliveries.isEmpty else { return }
        var settled: [Delivery] = []
        swap(&settled, &deliveries)
        for delivery in settled { delivery.session?.note(delivery.numbers, on: self, outcome) }
    }

    /// The client asks again: it has received what its machine has acknowledged. What it has not, it may have
    /// asked ahead of.
    func settleAcknowledgedDeliveries() {
        guard !deliveries.isEmpty else { return }
        let taken = channel.acknowledgedByteCount
        let received = Array(deliveries.prefix { $0.end <= taken })
        deliveries.removeFirst(received.count)
        for delivery in received { delivery.session?.note(delivery.numbers, on: self, .received) }
    }

    /// The session waits no longer for a sign that what was written here has arrived.
    func loseDeliveries(of session: LongPollingSession) {
        let lost = deliveries.filter { $0.session === session }
        deliveries.removeAll { $0.session === session }
        for delivery in lost { session.note(delivery.numbers, on: self, .lost) }
    }

    func hasDeliveries(of session: LongPollingSession) -> Bool {
        deliveries.contains { $0.session === session }
    }

    /// Looks what the client's machine has acknowledged. One system call, unless that is known.
    func noteAcknowledged() {
        guard let last = deliveries.last, !last.isAcknowledged, isAcknowledged(last) else { return }
        for index in deliveries.indices where !deliveries[index].isAcknowledged {
            deliveries[index].isAcknowledged = true
            let delivery = deliveries[index]
            delivery.session?.note(delivery.numbers, on: self, .acknowledged)
        }
    }

    private func isAcknowledged(_ delivery: Delivery) -> Bool {
        channel.acknowledgedByteCount >= delivery.end
    }

    /// The connection is gone. What the client's machine has acknowledged its program has read, if it was
    /// closed in order: to close with something unread is a reset.
    func settleDeliveriesAtEnd(inOrder: Bool) {
        guard let last = deliveries.last else { return }
        settleDeliveries(inOrder && isAcknowledged(last) ? .received : .lost)
    }
}
