import PandoEngine
import PandoMetrics
import PandoREST
import PandoStorage
import PandoTime
import Synchronization

/// What the databases count. Added to by the thread that runs them, read by any.
package final class DatabaseMetrics: Sendable {
    /// Why a request fails.
    package enum Failure: UInt8, CaseIterable, Sendable {
        case permissionDenied, dataStale, invalid, tooBig, diskFull, unauthenticated, unavailable, other
        /// A limit of clients (`ClientLimit`), or of bad tokens.
        case limitExceeded
    }

    package let requests = CounterTable<RequestKind>()
    package let failures = CounterTable<Failure>()
    /// Requests for more than a session may have.
    package let sessionLimits = CounterTable<SessionLimit>()
    /// Requests for which rules were evaluated, and those of them that rules denied.
    package let evaluations = Counter()
    package let denials = Counter()
    /// Writes that have changed something.
    package let commits = Counter()
    /// Distinct pushes; each may have many recipients.
    package let pushes = Counter()
    /// Backups that were begun; see also ``finishedBackupCount``.
    package let backups = Counter()
    private let finishedBackups = Atomic<UInt64>(0)
    private let lastBackup = Atomic<Int64>(0)
    /// Nanoseconds of one turn of the databases.
    package let turns = Histogram.durations

    package let sessions = Gauge()
    package let streams = Gauge()
    /// Outputs that wait until what they depend on is durable: batches.
    package let heldBatches = Gauge()

    // Set by a request for statistics (``DatabaseStatisticsRequest``).
    package let databases = Gauge()
    package let defaultListens = Gauge()
    package let filteredListens = Gauge()
    package let windows = Gauge()
    package let indexes = Gauge()
    package let onDemandIndexBytes = Gauge()
    /// Seconds by which the machine's clock is behind the journal (``WallClock/machineLag``).
    package let clockLag = Gauge()
    package let indexEntries = Gauge()

    package let slowOperations: SlowOperations

    package convenience init() { self.init(SlowOperations()) }

    init(_ slowOperations: SlowOperations) {
        self.slowOperations = slowOperations
    }

    /// Any thread: the last bytes of a backup were given to a connection.
    func noteFinishedBackup() {
        finishedBackups.add(1, ordering: .relaxed)
        lastBackup.store(Environment.machine.wallMilliseconds / 1000, ordering: .relaxed)
    }

    /// Backups whose last bytes were given to a connection.
    package var finishedBackupCount: UInt64 { finishedBackups.load(ordering: .relaxed) }
    /// When that was last: seconds since 1970; 0 for not since the start.
    package var lastBackupTime: Int64 { lastBackup.load(ordering: .relaxed) }
}

extension DatabaseMetrics.Failure {
    /// Nil for a reply that reports no failure.
    init?(_ reply: SessionReply) {
        switch reply {
        case .ok, .listeningWithoutIndex, .authenticated, .unauthenticated, .finished: return nil
        case .authenticationFailed: self = .unauthenticated
        case .authenticationUnavailable, .contested: self = .unavailable
        case .unknownAction, .invalid: self = .invalid
        case .tooBig: self = .tooBig
        case .diskFull: self = .diskFull
        case .limitExceeded: self = .limitExceeded
        }
    }

    init(_ error: RESTError) {
        if error == .diskFull {
            self = .diskFull
            return
        }
        switch error.status {
        case .unauthorized: self = error == .permissionDenied ? .permissionDenied : .unauthenticated
        case .badRequest, .notFound, .methodNotAllowed: self = .invalid
        case .preconditionFailed: self = .dataStale
        case .contentTooLarge: self = .tooBig
        case .serviceUnavailable: self = .unavailable
        case .tooManyRequests: self = .limitExceeded
        default: self = .other
        }
    }
}
