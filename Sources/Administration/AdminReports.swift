import PandoBytes
import PandoDatabase
import PandoEngine
import PandoLoops
import PandoMetrics
import PandoREST
import PandoReactor
import PandoSettings
import PandoTime

/// What the server reports about itself: metrics, health, connections, slow operations, its log. Served by
/// the admin port (``AdminServer``; metrics and health to everybody, the rest to administrators) and by
/// `/.inspect` at the server's own port (rest §10.3; administrators only).
///
/// `@unchecked Sendable`: what is mutable is used on the thread of the admin port only.
package final class AdminReports: @unchecked Sendable {
    /// How long a report waits for what other threads know; then it says what is known.
    static let databaseTimeout: Duration = .milliseconds(500)

    let loop: EventLoop
    let metrics: ServerMetrics
    let registry: MetricRegistry
    let configuration: Configuration
    let database: DatabaseExecutor
    let ioLoops: [IOLoop]
    private let logTail: LogTail
    /// What waits for ``refresh(_:)``; at most one for each connection, here or at the server's own port.
    private var waiting: [() -> Void] = []
    private var lastRefresh: MonotonicTime?

    /// - Parameters:
    ///   - loop: Of the admin port.
    ///   - resources: Those of the I/O loops.
    init(on loop: EventLoop, _ resources: LoopResources, _ sources: AdminSources) {
        self.loop = loop
        logTail = sources.logTail
        metrics = ServerMetrics(resources, sources, adminLoop: loop)
        registry = MetricRegistry(of: metrics)
        configuration = resources.configuration
        database = resources.database
        ioLoops = sources.ioLoops
    }

    // MARK: Questions at the server's own port

    /// Answers what an administrator asks (rest §10.3). Any thread may call it.
    /// - Parameter finish: Called on the thread of the admin port.
    package func answer(_ question: ServerQuestion, _ finish: @escaping @Sendable (RESTReport) -> Void) {
        loop.submit { self.report(question, finish) }
    }

    private func report(_ question: ServerQuestion, _ finish: @escaping (RESTReport) -> Void) {
        switch question.page {
        case .stats: refresh { [self] in finish(RESTReport(prefix: variables)) }
        case .operations: finish(RESTReport(prefix: slowOperations))
        case .connections:
            guard let request = ConnectionListRequest(question.parameters) else {
                return finish(RESTReport(.badRequest, error: ConnectionListRequest.usage))
            }
            listConnections(request) { list in finish(RESTReport(prefix: list)) }
        case .log:
            let text = question.parameters["after"]
            guard let number = (text ?? "0").number(as: UInt64.self) else {
                return finish(RESTReport(.badRequest, error: "after must be the number of a message"))
            }
            finish(RESTReport(prefix: logTail.json(after: number)))
        }
    }

    // MARK: What other threads know

    /// The shortest time between two looks at the databases for metrics, however many ask.
    private static let refreshInterval: Duration = .milliseconds(100)

    /// Calls `body` on the loop when the gauges of the databases and of the machine are up to date.
    func refresh(_ body: @escaping () -> Void) {
        waiting.append(body)
        guard waiting.count == 1 else { return }
        let due = lastRefresh.map { max(loop.now, $0 + Self.refreshInterval) } ?? loop.now
        loop.schedule(at: due) { [self] in
            lastRefresh = loop.now
            statistics { [self] _ in
                metrics.machine.refresh(at: loop.now)
                for body in exchange(&waiting, with: []) { body() }
            }
        }
    }

    /// Asks the databases what they hold, and calls `body` with what they say about some sessions, on the
    /// loop; with nothing where they do not answer in time: during recovery, or while the server stops.
    func statistics(
        of sessions: [SessionID] = [],
        _ body: @escaping ([SessionID: DatabaseStatistics.Session]) -> Void
    ) {
        let answer = FirstResult(on: loop, timeout: Self.databaseTimeout, otherwise: [:], body)
        guard metrics.status.phase == .ready else { return answer.give([:]) }
        database.post(
            .statistics(DatabaseStatisticsRequest(of: sessions) { found in answer.giveFromElsewhere(found) }))
    }
}
