import Logging
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoIdentity
import PandoREST
import PandoReactor
import PandoSettings
import PandoTime

/// One I/O thread: its event loop, its sessions, and its queues to the other threads.
///
///     socket ──▶ Channel ──▶ session (``SessionTable``) ──▶ its state machine ──messages──▶ databases
///                               ▲      ▲                                                       │
///        workers, verifier ─────┘      └────────────────────── outputs ◀───────────────────────┘
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs.
package final class IOLoop: @unchecked Sendable {
    let resources: LoopResources
    package let loop: EventLoop
    package let index: UInt8
    let logger: Logger
    let table: SessionTable
    /// What the sessions use.
    let services: SessionServices
    /// Begins the sessions, and does what they ask for.
    let host: SessionHost
    /// See ``DeliveryMeasurements``.
    let measurements: DeliveryMeasurements
    private let memory: LoopMemory
    private let sweep: SessionSweep
    /// The mailbox of what the databases send; nil before it is attached.
    var outputs: MailboxAttachment?
    /// Outputs that were taken out of it and are not delivered; ``position`` says how far the first batch is.
    var backlog: OutputBacklog
    var position = OutputPosition()

    /// - Parameter index: The loop's number, by which its event loop and mailboxes stand in `resources`.
    package init(_ resources: LoopResources, index: UInt8) {
        self.resources = resources
        self.index = index
        backlog = OutputBacklog(ofLoop: index)
        let configuration = resources.configuration
        loop = resources.eventLoops[Int(index)]
        logger = resources.log.messages
        table = SessionTable(loopIndex: index)
        services = SessionServices(resources, loop: index)
        measurements = DeliveryMeasurements(services.metrics)
        host = SessionHost(resources, index: index, table, services)
        memory = LoopMemory(
            table, services, loopIndex: Int(index), of: resources.eventLoops, resources.memory, logger)
        sweep = SessionSweep(table, on: loop, configuration)
        attachMailboxes()
        loop.onTickEnd = { [unowned self] in
            flushMessages()
            // What the answers have led to must not wait until something else wakes the loop.
            if host.polls.endTick(), hasMessages { loop.wakeup.signal() }
            memory.publishHeldBytes()
        }
        // Once in each tick, at its end.
        loop.onTickMeasured = { [measurements, services, compression = services.context.compression] time in
            measurements.end(at: time)
            compression?.refillBudgets()
            services.context.printing.refill()
        }
        sweep.schedule()
        sweep.scheduleSamples()
    }

    /// The options of a running server have changed.
    package func takeOver(from configuration: Configuration, _ limiters: ClientLimiters) {
        services.takeOver(from: configuration)
        host.limitClients(limiters)
    }

    private func attachMailboxes() {
        // No slices: ``deliver(_:)`` also drains the mailbox itself, and would overtake what waits in a
        // slice.
        outputs = loop.attachInParts(resources.outputs[Int(index)], sliceCount: .max) { [self] batches in
            deliver(&batches)
        }
        // One by one: each may have a piece of 128 KiB written.
        loop.attach(services.encoded, sliceCount: 1) { [table] messages in
            for message in messages { table[message.session]?.encoded(message.message) }
        }
        loop.attach(services.measured) { [table] sizes in
            for size in sizes { table[size.session]?.measured(size) }
        }
        loop.attach(services.parsed) { [table] messages in
            for message in messages { table[message.session]?.parsed(message) }
        }
        loop.attach(services.inspected) { [table] results in
            for result in results { table[result.session]?.inspected(result.report) }
        }
        loop.attach(services.bodies) { [table] bodies in
            for body in bodies { table[body.session]?.bodyRead(body) }
        }
        // One by one: a turn is as much as a session may do before others have theirs.
        loop.attach(services.turns, sliceCount: 1) { [table] turns in
            for id in turns { table[id]?.nextTurn() }
        }
        loop.attach(resources.directory.moves[Int(index)]) { [host] connections in
            for connection in connections { host.adopt(connection) }
        }
        host.verifier.attach()
    }

    // MARK: What the server says

    /// Begins to speak HTTP on a new connection, through TLS where the server has certificates.
    package func adopt(_ socket: ConnectedSocket) { host.adopt(socket) }

    /// Has sessions begin behind a generation that an earlier process has used, so that none gets the id of a
    /// session whose onDisconnect writes still wait. Before the loop runs.
    package func skipGenerations(upTo used: UInt32) { table.skipGenerations(upTo: used) }

    /// Sets what answers the questions of clients that no database answers. Before the loop runs.
    package func answerServerQuestions(
        with answer: @escaping (ServerQuestion, @escaping @Sendable (RESTReport) -> Void) -> Void
    ) {
        services.answerServerQuestion = answer
    }

    /// Closes so many connections for new ones, if there are so many that may be closed. O(count).
    /// - Parameter isReserved: Of those in the administrators' reserve; else of all others.
    package func evict(_ count: Int, ofReserved isReserved: Bool) {
        host.evictor.evict(count, ofReserved: isReserved)
    }

    /// Keys or revocations have changed. What they no longer allow ends: all sessions are checked, with
    /// pauses for other work.
    package func applyRevocations() {
        host.verifier.forgetAll()
        recheck(from: 0)
    }

    /// Some sessions in one tick, the next in the following one: other clients are served in between.
    /// Sessions that sign in meanwhile are checked when they do.
    private func recheck(from start: Int) {
        let revocations = resources.authenticator.revocations
        let end = min(table.slots.count, start + Self.recheckedCount)
        for session in table.slots[start..<end] { session?.recheck(revocations) }
        if end < table.slots.count { loop.submit { [self] in recheck(from: end) } }
    }

    /// Sessions that are checked in one step: about a millisecond, if all of them are revoked.
    private static let recheckedCount = 128

    // MARK: For administrators

    /// Any thread may read them.
    package var metrics: SessionMetrics { services.metrics }

    /// Lists the sessions that sort first.
    /// - Parameter finish: Called on this loop.
    package func list(
        _ request: ConnectionListRequest, finish: @escaping @Sendable ([ConnectionEntry], Int) -> Void
    ) {
        SessionListing(table: table, loop: loop, thread: Int(index)).list(request, finish: finish)
    }

    /// Closes a client's connection with RST; its session ends.
    /// - Returns: Whether there was one.
    package func disconnect(_ id: SessionID) -> Bool {
        guard let session = table[id] else { return false }
        session.cut()
        return true
    }

    // MARK: The end

    /// Ends all sessions and idle connections that there are now, one after the other over a time.
    /// - Parameter done: Called on the loop after the last.
    package func dismiss(over time: Duration, _ done: @escaping () -> Void) {
        SessionDismissal(table: table, loop: loop).begin(over: time, done)
    }

    /// Closes connections that are idle, and waits until clients have taken what they were sent.
    /// - Parameter done: Called on the loop once: when the last session is gone, or nothing is unsent and
    ///   nothing more was sent for a while (``ShutdownWait``).
    package func awaitClients(_ done: @escaping () -> Void) { host.shutdown.begin(done) }
}
