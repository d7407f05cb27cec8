import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor

// Answers and events on their way to the client: a piece at a time, as it reads.

extension HTTPConnection {
    func answer(_ outcome: RESTCallResult, etag: String?, _ pending: PendingRequest) {
        cancelTimeout()
        if pending.context.acceptsGzip, !owner.mayCompress { pending.context.acceptsGzip = false }
        send(outcome.answer(to: pending.request, pending.updates, etag: etag, pending.context), pending)
    }

    /// The request's own time is over (rest §4). What still comes of it is nobody's any more, and so is the
    /// connection.
    func giveUp() {
        guard case .answering(let pending) = stage, !isAnswering else { return }
        pending.context.keepsAlive = false
        surveyed = nil
        bodyJob?.cancel()
        bodyJob = nil
        isVerifying = false
        timeout = nil
        send(.error(.readTimedOut, pending.context), pending)
    }

    func cancelTimeout() {
        if let timeout = timeout.take() { owner.loop.cancel(timeout) }
    }

    func send(_ answer: consuming RESTResponse, _ pending: PendingRequest) {
        stage = .answering(pending)
        beginOutputPace()
        // Nearly all answers are one piece, and nothing of them is kept.
        if let bytes = answer.removeWhole() {
            channel.write(bytes.rawSpan)
            if channel.outboundByteCount < Self.unsentByteLimit {
                return endAnswer(closes: answer.closesConnection)
            }
        }
        if answer.isCompressing {
            compresses = true
            owner.compressingCount += 1
        }
        self.answer = answer
        sendAnswer()
    }

    /// Hands the socket as much of the answer as it may; the rest follows as the client reads, or when others
    /// have had their turn.
    func sendAnswer() {
        var pieceCount = 0
        while isAnswering, channel.outboundByteCount < Self.unsentByteLimit {
            guard pieceCount < Self.turnPieceCount else { return continueLater() }
            pieceCount += 1
            guard let bytes = answer?.next() else { return finishAnswer() }
            channel.write(bytes.rawSpan)
        }
    }

    private func continueLater() {
        guard !continuesLater else { return }
        continuesLater = true
        owner.nextTick(for: id)
    }

    func dropAnswer() {
        if compresses { owner.compressingCount -= 1 }
        compresses = false
        answer = nil
    }

    private func finishAnswer() {
        let closes = answer?.closesConnection ?? true
        dropAnswer()
        endAnswer(closes: closes)
    }

    /// All of the answer is with the channel.
    func endAnswer(closes: Bool) {
        guard !closes, !endsAfterAnswer else {
            stage = .ended
            owner.becameIdle(self)
            return channel.closeAfterFlush()
        }
        guard !mustDrain else { return stage = .draining }
        stage = .head
        channel.readByteLimit = Self.readByteLimit
        owner.becameIdle(self)
        readAhead()
    }

    /// Goes on with what has come meanwhile.
    func readAhead() {
        guard !ahead.isEmpty else { return resume(.request) }
        var bytes: [UInt8] = []
        swap(&bytes, &ahead)
        var offset = aheadOffset
        aheadOffset = 0
        isReadingAhead = true
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        read(&raw, from: &offset)
        isReadingAhead = false
        defer { countKept() }
        guard offset < bytes.count, isUnderWay else { return resume(.request) }
        // It waits where it is: copied behind each request, a long pipeline would cost its square.
        swap(&bytes, &ahead)
        aheadOffset = offset
    }

    /// An answer to what is no request. Nothing can be read behind it.
    func refuse(_ status: HTTPStatus) {
        let isHead = if case .body(let pending) = stage { pending.context.isHead } else { reader.isHead }
        stage = .ended
        _ = takeContent()
        var answer = RESTResponse.refusal(status, isHead: isHead, dateLine: owner.dateLine)
        while let bytes = answer.next() { channel.write(bytes.rawSpan) }
        owner.becameIdle(self)
        channel.closeAfterFlush()
    }

    /// The connection is in the administrators' reserve, and the request is no administrator's.
    func refuseForWantOfConnections(_ pending: PendingRequest) {
        owner.limiter.didRefuse()
        cancelTimeout()
        _ = takeContent()
        pending.context.keepsAlive = false
        send(.error(.tooManyConnections, pending.context), pending)
    }

    /// - Parameter identity: Whose it is: when that is over, the stream ends (rest §8.3).
    func openStream(_ request: RESTRequest, for identity: Identity?) {
        cancelTimeout()
        stage = .streaming
        stream = EventStream(
            JSONForm(streaming: request.form), waitingByteLimit: channel.outboundByteLimit,
            now: owner.loop.now)
        var head = RESTResponse.stream(dateLine: owner.dateLine)
        if let bytes = head.next() { channel.write(bytes.rawSpan) }
        resume(.request)
        expiry = identity?.validUntil.map { end in
            owner.atWallTime(end) { [weak self] in self?.receive([.authRevoked]) }
        }
        listener = identity
        // Keys may have gone since the request came.
        recheck(owner.authenticator.revocations)
    }

    func sendEvents() {
        guard case .streaming = stage else { return }
        while channel.outboundByteCount < Self.unsentByteLimit {
            guard let piece = stream?.next() else {
                if stream?.isFinished == true { channel.closeAfterFlush() }
                countKept()
                return stream?.waitingCount == 0 ? catchUpIfDrained() : ()
            }
            beginOutputPace()
            stream?.lastSent = owner.loop.now
            channel.write(piece.rawSpan)
        }
    }
}
