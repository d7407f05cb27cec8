import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoStorage
import PandoTime

/// What the connections of a ``SimulatedLoop`` use: the context of their state machines, clock, workers, and
/// what they ask of the loop.
final class LoopServices {
    /// What the state machines of all connections are given with an event, and what it leads to.
    var context: ConnectionContext
    let workers: SimulatedWorkers
    let fault: FaultInjector?
    /// Connections that go on when others have had their turn.
    var turns: [SessionID] = []
    /// Connections that are paused because the databases or the disk are behind.
    var paused: [SessionID] = []
    /// The databases or the disk are behind.
    var isUnderBackpressure = false
    /// Goes on with an HTTP connection that wants to be a WebSocket, and with what came behind its request.
    var upgrade: (SessionID, UpgradeRequest, _ rest: [UInt8]) -> Void = { _, _, _ in }

    private let environment: ScriptedEnvironment
    private let requestBackpressure: Backpressure
    private let outputs: Mailbox<OutputBatch>

    init(
        _ settings: ConnectionSettings, _ environment: ScriptedEnvironment, _ workers: SimulatedWorkers,
        fault: FaultInjector?, _ requestBackpressure: Backpressure, _ outputs: Mailbox<OutputBatch>
    ) {
        context = ConnectionContext(settings, now: environment.monotonicTime)
        self.environment = environment
        self.workers = workers
        self.fault = fault
        self.requestBackpressure = requestBackpressure
        self.outputs = outputs
    }

    var now: MonotonicTime { environment.monotonicTime }

    /// Counts the bytes that an event has posted.
    /// - Returns: Whether the connection must be paused.
    func countPosted(hasManyRequests: Bool) -> Bool {
        let byteCount = context.takePostedByteCount()
        guard byteCount > 0 else { return false }
        switch requestBackpressure.add(byteCount) {
        case .proceed: break
        case .pause: isUnderBackpressure = true
        case .resumeAll: outputs.post(OutputBatch(items: [.resumeReading]))
        }
        return isUnderBackpressure && (byteCount >= ConnectionLimits.smallByteCount || hasManyRequests)
    }
}
