import PandoReactor
import PandoTraffic

/// How much to measure.
struct Effort: Sendable {
    enum Extent: Sendable {
        /// Exactly so many messages, all of them measured.
        case messages(Int)
        /// First a warm-up that is not measured.
        case time(warmUp: Duration, measured: Duration)
    }

    var extent: Extent
    /// Whose processor time is taken beside our own.
    var serverProcess: Int32?
}

/// One measurement: connects everybody, lets the load run, stops it, and waits for all that is under way.
///
///     connecting ─▶ warmingUp ─▶ measuring ─▶ draining ─▶ pinging ─▶ closing ─▶ over
///          │                         ▲             │           │          └ the server has ended them all
///          └─ (a number of messages)─┘             │           └ what was delivered twice came before the pong
///                                                  └ nothing is under way any more
///
/// Confined to its loop, which runs in the caller's thread.
final class Session {
    private enum Phase { case connecting, warmingUp, measuring, draining, pinging, closing, over }

    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 64
    /// A run in which nothing moves for so long has failed.
    private static let patience: Duration = .seconds(10)

    let load: any Load
    /// For the upgrade request.
    let host: String
    private(set) var clients: [Client] = []
    let maskingKeys = MaskingKeys()

    private let loop: EventLoop
    private let address: SocketAddress
    private let effort: Effort
    private var phase = Phase.connecting
    private var places: [Client?]
    private var begunCount = 0
    private var readyCount = 0
    private var pongCount = 0
    private var endedCount = 0
    /// Messages that may still be sent; nil without a bound.
    private var ticketsLeft: Int?
    private var sentCount = 0
    private var completedCount = 0
    private var lastProgress = -1
    private var latencies = Latencies()
    private var window: (first: Snapshot, last: Snapshot)
    private var problems: [String] = []

    /// Runs to the end. Blocks; everything it waits for has a deadline.
    /// - Throws: When there is no loop to be had. What goes wrong on the way is in the measurement.
    static func run(_ load: any Load, at address: SocketAddress, _ effort: Effort) throws -> Measurement {
        Signals.block()
        let session = try Session(load, at: address, effort)
        let signals = try Signals(on: session.loop) { _ in session.fail("interrupted") }
        session.connectMore()
        session.watch()
        withExtendedLifetime(signals) { session.loop.run() }
        return session.measurement()
    }

    private init(_ load: any Load, at address: SocketAddress, _ effort: Effort) throws {
        self.load = load
        self.address = address
        self.effort = effort
        host = address.description
        loop = try EventLoop()
        places = Array(repeating: nil, count: load.connectionCount)
        if case .messages(let count) = effort.extent { ticketsLeft = count }
        let nothing = Snapshot(effort.serverProcess, completed: 0, deliveries: 0)
        window = (nothing, nothing)
    }

    // MARK: Connecting

    private func connectMore() {
        while begunCount < places.count, begunCount - readyCount < Self.connectingLimit {
            let index = begunCount
            begunCount += 1
            do {
                try Connector.connect(to: address, on: loop) { [self] channel in
                    let client = Client(index, of: self)
                    places[index] = client
                    return client.connect(on: channel)
                } onFailure: { [self] error in
                    fail("connection \(index): \(error)")
                }
            } catch {
                return fail("connection \(index): \(error)")
            }
        }
    }

    func becameReady(_ client: Client) {
        readyCount += 1
        guard readyCount == places.count else { return connectMore() }
        clients = places.compactMap { $0 }
        switch effort.extent {
        case .messages: beginMeasuring()
        case .time(let warmUp, let measured):
            phase = .warmingUp
            loop.schedule(after: warmUp) { [self] in
                guard phase == .warmingUp else { return }
                beginMeasuring()
                loop.schedule(after: measured) { [self] in endMeasuring() }
            }
        }
        load.begin(self)
        // If nothing may be sent, nothing will ever be completed.
        finishIfIdle()
    }

    // MARK: The load's questions and answers

    /// Whether one more message may be sent, and the moment to count its latency from.
    func start() -> MonotonicTime? {
        guard phase == .warmingUp || phase == .measuring else { return nil }
        if let left = ticketsLeft {
            guard left > 0 else { return nil }
            ticketsLeft = left - 1
        }
        sentCount += 1
        return .now
    }

    /// A message sent at `start` has just reached the last one it is for.
    func record(since start: MonotonicTime) {
        guard phase == .measuring else { return }
        latencies.record(nanoseconds: MonotonicTime.now.nanoseconds - start.nanoseconds)
    }

    /// Everything a message leads to has happened. Once per message.
    func complete() {
        completedCount += 1
        finishIfIdle()
    }

    // MARK: The phases

    private func beginMeasuring() {
        phase = .measuring
        window.first = snapshot()
    }

    private func endMeasuring() {
        guard phase == .measuring else { return }
        window.last = snapshot()
        phase = .draining
        finishIfIdle()
    }

    private func snapshot() -> Snapshot {
        Snapshot(effort.serverProcess, completed: completedCount, deliveries: load.deliveryCount)
    }

    private func finishIfIdle() {
        guard completedCount == sentCount else { return }
        if phase == .measuring, ticketsLeft == 0 { endMeasuring() }
        guard phase == .draining else { return }
        phase = .pinging
        for client in clients { client.ping() }
    }

    func ponged() {
        pongCount += 1
        guard phase == .pinging, pongCount == places.count else { return }
        phase = .closing
        for client in clients { client.close() }
    }

    /// The server has ended a connection. Only after we asked it to is that no failure.
    func ended(_ client: Client, because reason: String) {
        guard phase == .closing else { return fail("connection \(client.index): \(reason)") }
        endedCount += 1
        guard endedCount == places.count else { return }
        phase = .over
        loop.stop()
    }

    /// Ends the run with a problem.
    func fail(_ problem: String) {
        guard phase != .over else { return }
        if phase == .measuring { window.last = snapshot() }
        phase = .over
        problems.append(problem)
        loop.stop()
    }

    private func watch() {
        loop.schedule(after: Self.patience) { [self] in
            guard phase != .over else { return }
            let progress =
                readyCount + sentCount + completedCount + load.deliveryCount + pongCount
                + endedCount
            guard progress != lastProgress else {
                return fail(
                    "nothing moved for \(Self.patience): \(readyCount) of \(places.count) connections ready, "
                        + "\(completedCount) of \(sentCount) messages done, \(pongCount) pongs, "
                        + "\(endedCount) ended")
            }
            lastProgress = progress
            watch()
        }
    }

    private func measurement() -> Measurement {
        // Everybody holds the session: let go, so that a next one has the memory.
        defer {
            clients = []
            places = []
        }
        return Measurement(
            from: window.first, to: window.last, latencies: latencies, sentCount: sentCount,
            totalDeliveryCount: load.deliveryCount, checksum: load.checksum,
            problems: problems + load.problems(sent: sentCount))
    }
}
