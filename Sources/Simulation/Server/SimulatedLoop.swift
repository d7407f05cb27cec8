import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoRandom
import PandoReactor
import PandoStorage
import PandoTime

/// The I/O thread of a simulated server, without a thread and sockets: the counterpart of `IOLoop` in
/// `Server`. It steps the state machines of `Connections`.
///
///     SimulatedLink ─ bytes ─▶ connections ─ messages ─▶ DatabaseExecutor
///           ▲                     │  ▲                        │
///           └────── bytes ────────┘  └──────── outputs ───────┘
///
/// It runs when a thread would be woken: when its event was signalled, a channel is ready, or a deadline has
/// come (``isAwake``). A wake-up that is lost is so seen as a client that waits for ever.
final class SimulatedLoop {
    /// What the loop shares with the databases.
    struct Seams {
        let database: DatabaseExecutor
        let outputs: Mailbox<OutputBatch>
        let outputPool: BufferPool<OutputBatch>
        let outputBackpressure: Backpressure
        let requestBackpressure: Backpressure
        /// Signalled by the mailbox of outputs.
        let wakeup: WakeupEvent
    }

    weak var observer: (any LoopObserver)?
    /// Outputs that wait to become durable: for ``PlantedFault/sendsBeforeDurable``.
    var takeHeld: () -> [OutputBatch] = { [] }
    /// The process has died: nothing leaves any more.
    var hasDied: () -> Bool = { false }
    /// Whether clients are read.
    var isReading = true

    let workers: SimulatedWorkers
    private let seams: Seams
    private let services: LoopServices
    private let fault: FaultInjector?
    private let results: Mailbox<SimulatedWorkers.Result>
    private let budget: EncodingBudget
    private var random: SeededGenerator
    /// By the numbers of their links; nil once they are gone.
    private var connections: [LoopConnection?] = []
    /// Of all sessions of this life, also of those that are gone.
    private var links: [SessionID: Int] = [:]
    private var sessionCount: UInt64 = 0
    private var isSignalled = false

    init(
        _ settings: ConnectionSettings, _ seams: Seams, _ environment: ScriptedEnvironment,
        nodeLimit: Int, fault: FaultInjector?, _ random: SeededGenerator
    ) {
        self.seams = seams
        self.fault = fault
        self.random = random
        budget = EncodingBudget(byteLimit: .max, signalling: seams.wakeup)
        results = Mailbox(signalling: seams.wakeup)
        workers = SimulatedWorkers(nodeLimit: nodeLimit, budget, results: results)
        services = LoopServices(
            settings, environment, workers, fault: fault, seams.requestBackpressure, seams.outputs)
        services.upgrade = { [unowned self] id, request, rest in upgrade(id, request, rest) }
    }

    /// Accepts a connection.
    func accept(_ link: SimulatedLink) {
        precondition(link.number == connections.count, "links are counted")
        let channel = SimulatedChannel(
            link, lowWaterByteCount: services.context.settings.outboundLowWaterByteCount,
            losesDataBeforeClose: fault?.fault == .losesDataBeforeClose)
        add(HTTPLoopConnection(makeID(), channel, services))
    }

    private func makeID() -> SessionID {
        sessionCount += 1
        // The generation above, the loop's number and the slot below.
        return SessionID(1 << 32 | sessionCount)
    }

    private func add(_ connection: LoopConnection) {
        let number = connection.channel.link.number
        if number == connections.count {
            connections.append(connection)
        } else {
            connections[number] = connection
        }
        links[connection.id] = number
    }

    /// Nil for one that is gone, or goes on under another id.
    private func connection(_ id: SessionID) -> LoopConnection? {
        guard let link = links[id], let connection = connections[link], connection.id == id else {
            return nil
        }
        return connection
    }

    private func link(of session: SessionID) -> Int {
        guard let link = links[session] else { preconditionFailure("a session without a connection") }
        return link
    }

    // MARK: A tick

    /// Whether the thread would run.
    var isAwake: Bool {
        if seams.wakeup.wait(timeout: .zero) { isSignalled = true }
        if let fault, fault.hasDelayed, !isDatabaseBusy() { isSignalled = true }
        return isSignalled || connections.contains { $0.map(isDue) ?? false }
    }

    private func isDue(_ connection: LoopConnection) -> Bool {
        isReading && connection.channel.isReady || connection.deadline.map { $0 <= services.now } ?? false
    }

    /// Does what has come: outputs, results of workers, input, deadlines; then hands messages over.
    /// - Parameter isComplete: Every channel that is ready is served, not only some.
    func tick(isComplete: Bool) {
        guard isAwake else { return }
        isSignalled = false
        deliverOutputs()
        var batch: [SimulatedWorkers.Result] = []
        results.drain(into: &batch)
        for result in batch { connection(result.session)?.finish(result.result) }
        for id in exchange(&services.turns, with: []) { connection(id)?.nextTurn() }
        for number in connections.indices {
            guard let connection = connections[number], isDue(connection),
                isComplete || random.chance(75)
            else { continue }
            if connection.deadline.map({ $0 <= services.now }) ?? false { connection.fireDeadline() }
            if isReading { serve(connection) }
        }
        flushMessages()
        for connection in connections { connection?.channel.flush() }
        if !services.turns.isEmpty { seams.wakeup.signal() }
    }

    /// At most one read, as in a real tick.
    private func serve(_ connection: LoopConnection) {
        while let event = connection.channel.nextEvent(byteLimit: min(connection.readByteLimit, 256 << 10)) {
            switch event {
            case .received(var bytes):
                connection.received(&bytes)
                // It goes to the owner of the channel.
                guard connection.channel.hasFoundEnd, let owner = connections[connection.channel.link.number]
                else { return }
                return serve(owner)
            case .drained: connection.drained()
            case .ended: connection.peerEnded()
            case .closed(let inOrder):
                connection.closed(inOrder: inOrder)
                return connections[connection.channel.link.number] = nil
            }
        }
    }

    /// Looks at connections that may have gone silent, or are too slow.
    func sweep() {
        for connection in connections {
            connection?.sweep()
            connection?.channel.sweepLingering()
        }
        flushMessages()
    }

    // MARK: To the databases

    private func flushMessages() {
        let delayed = fault?.takeDelayed(isBusy: isDatabaseBusy()) ?? []
        guard !services.context.messages.isEmpty || !delayed.isEmpty else { return }
        for message in services.context.messages { note(message) }
        var messages = exchange(&services.context.messages, with: [])
        fault?.change(&messages, isBusy: isDatabaseBusy())
        messages = delayed + messages
        if exchange(&services.context.hasHeavyMessage, with: false) || random.chance(50) {
            seams.database.post(movingFrom: &messages)
            return
        }
        observer?.runDatabases { seams.database.process(&messages, onQueue: 0) }
        // Its thread is not woken for what it has done itself.
        deliverOutputs()
        if !services.context.messages.isEmpty { seams.wakeup.signal() }
    }

    /// Whether the databases have more to do: for faults.
    var isDatabaseBusy: () -> Bool = { false }

    private func note(_ message: DatabaseMessage) {
        let input: LoopInput
        let session: SessionID
        switch message {
        case .open(let id, _): (session, input) = (id, .open(id))
        case .request(let request):
            (session, input) = (request.session, .request(request.session, number: request.number))
        case .reply(let id, let reply, _):
            guard let number = reply.number else { return }
            (session, input) = (id, .request(id, number: number))
        case .rest(let id, let call, _):
            let isAdmission = if case .admit = call.action { true } else { false }
            (session, input) = (id, isAdmission ? .admission(id) : .rest(id))
        case .lagging(let id): (session, input) = (id, .lagging(id))
        case .closed(let id): (session, input) = (id, .closed(id))
        case .credentialChanged, .credentialEnded, .revoked, .windowMark, .caughtUp, .listenChecks, .prepared,
            .indexed, .continueEnding, .rules, .storage, .outputsDelivered, .drain, .statistics, .usage,
            .backup, .trees:
            return
        }
        observer?.posted(input, from: link(of: session))
    }

    // MARK: From the databases

    private func deliverOutputs() {
        guard !hasDied() else { return }
        var batches: [OutputBatch] = []
        seams.outputs.drain(into: &batches)
        for batch in batches { deliver(batch) }
        if fault?.sendsEarly() == true { for batch in takeHeld() { deliver(batch) } }
    }

    private func deliver(_ batch: OutputBatch) {
        let outputs = outputs(of: batch)
        for output in outputs { observer?.released(output, to: link(of: output.session)) }
        if let fault, fault.fault == .sendsPushAfterReply {
            for output in fault.reordered(outputs) { deliver(output) }
        } else {
            for item in batch.items { deliver(item, batch.arena) }
        }
        if seams.outputBackpressure.remove(batch.byteCount + batch.deliveryWeight) {
            seams.database.post(.outputsDelivered)
        }
        OutputBatch.recycle(batch, into: seams.outputPool)
    }

    private func outputs(of batch: OutputBatch) -> [LoopOutput] {
        batch.outputs { message in
            var hashes = HashMemo()
            message.encode(within: budget, &hashes)
        }
    }

    private func deliver(_ item: OutputBatch.Item, _ arena: [UInt8]) {
        switch item {
        case .frames(let id, let range): connection(id)?.send(Array(arena[range]))
        case .shared(let bytes, let recipients): for id in recipients { connection(id)?.send(shared: bytes) }
        case .compressible(let frames, let recipients):
            for id in recipients { connection(id)?.send(shared: frames.plain) }
        case .tagged(let push): deliver(push)
        case .large(let id, let message): connection(id)?.send(message)
        case .rest(let id, let result): connection(id)?.receive(result)
        case .events(let id, let events): connection(id)?.receive(events)
        case .update(let id, let update): connection(id)?.receive(update)
        case .window(let id, let window): connection(id)?.receive(window)
        case .windowMark(let id): connection(id)?.windowMarkReturned()
        case .held: break
        case .close(let id, let reason): connection(id)?.close(reason)
        case .resumeReading: resumeReading()
        case .delivered: break
        }
    }

    private func deliver(_ push: TaggedPush) {
        var writer = push.makeWriter()
        for recipient in push.recipients {
            guard let connection = connection(recipient.session) else { continue }
            if push.isLarge {
                connection.send(push.largeMessage(for: recipient.tag))
            } else if writer.print(for: recipient.tag) {
                connection.send(writer.frames)
            }
        }
    }

    /// Delivers one output of a batch that a fault has put in another order.
    private func deliver(_ output: LoopOutput) {
        switch output {
        case .message(let id, let message):
            var frames: [UInt8] = []
            guard frames.append(framesOf: message.rawSpan) else { return }
            connection(id)?.send(frames)
        case .rest(let id, let result): connection(id)?.receive(result)
        case .events(let id, let events): connection(id)?.receive(events)
        case .closed(let id): connection(id)?.close(.finished)
        }
    }

    private func resumeReading() {
        services.isUnderBackpressure = false
        for id in exchange(&services.paused, with: []) { connection(id)?.resumeAfterBackpressure() }
    }

    /// What was decided and not delivered, in the order of its decision: a client will never get it. For a
    /// checker that has to know in which order requests were done when the process died.
    func takeUndelivered() -> [LoopOutput] {
        var batches: [OutputBatch] = []
        seams.outputs.drain(into: &batches)
        return (batches + takeHeld()).flatMap { outputs(of: $0) }
    }

    // MARK: Upgrades

    /// Goes on with a connection that wants to be a WebSocket.
    /// - Parameter rest: What the client has sent behind the request.
    private func upgrade(_ id: SessionID, _ request: UpgradeRequest, _ rest: [UInt8]) {
        guard let connection = connection(id) as? HTTPLoopConnection, connection.upgrade(request) else {
            return
        }
        connection.letGo()
        let webSocket = WebSocketLoopConnection(makeID(), connection.channel, services)
        add(webSocket)
        services.context.post(.open(webSocket.id, request.openRequest))
        var bytes = rest
        webSocket.received(&bytes)
    }
}

extension SessionReply {
    /// The number of its request; nil where it is the end of the session.
    fileprivate var number: Int64? {
        switch self {
        case .ok(let number), .listeningWithoutIndex(let number), .authenticated(let number, _, _),
            .unauthenticated(let number),
            .authenticationFailed(let number, _, _), .authenticationUnavailable(let number, _),
            .unknownAction(let number), .tooBig(let number), .diskFull(let number), .contested(let number),
            .invalid(let number, _), .limitExceeded(let number, _):
            number
        case .finished: nil
        }
    }
}
