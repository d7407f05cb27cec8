import PandoDatabase
import PandoEngine
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import PandoStorage

/// What one seed has made, and its state: disk, network, clock, clients, the server while it runs, and what
/// they must hold. All random choices come from one generator, so the same seed gives the same run.
final class SimulatedWorld {
    static let namespaces = ["default", "demo"]
    private static let beginning: Int64 = 1_700_000_000_000

    var log: EventLog
    var step = 0
    var totals = Totals()

    var random: SeededGenerator
    let plan: Plan
    let disk = SimulatedDisk()
    var diskFaults: DiskFaults
    let environment: ScriptedEnvironment
    var server: SimulatedServer<SimulatedDisk>?
    var network: SimulatedNetwork
    var checker: Checker
    /// By the numbers of their links.
    var clients: [SimulatedClient] = []
    /// While ``StartReader`` reads after a start: gets what its clients decode; nil otherwise.
    var onDecoded: ((SimulatedClient, SimulatedClient.Decoded) throws -> Void)?
    /// The server ends all sessions: what is posted now is dropped.
    var isStopping = false
    /// The first broken promise that was seen in the middle of a turn.
    var found: (any Error)?

    /// - Parameter floods: Whether sessions flood; nil to leave it to the seed.
    init(seed: UInt64, log: EventLog.Mode, floods: Bool?) {
        self.log = EventLog(log)
        random = SeededGenerator(seed: seed)
        plan = Plan(&random, floods: floods)
        network = SimulatedNetwork(plan.network)
        diskFaults = DiskFaults(failuresInTenThousand: plan.failuresInTenThousand)
        environment = ScriptedEnvironment(
            startingAt: Self.beginning, seed: random.next(), workStep: plan.workStep,
            heavyWorkStep: plan.heavyWorkStep)
        checker = Checker(
            mayBeFull: plan.hasFullDisks || plan.failuresInTenThousand > 0,
            isTimeKnown: !plan.hasSlowLoops && !plan.hasFloods,
            bound: !plan.hasFloods
                ? nil
                : FairnessBound(
                    quantum: SimulatedServer<SimulatedDisk>.quantum,
                    burst: SimulatedServer<SimulatedDisk>.burstWork,
                    heaviest: plan.heavyWorkStep, databaseCount: UInt64(Self.namespaces.count)),
            workOfPiece: environment.workNanoseconds(before:))
    }

    /// Whether it is known when the server stamped a command: then clients write server timestamps, and the
    /// clock may be set back.
    var usesTime: Bool { !plan.hasSlowLoops && !plan.hasFloods && !checker.mayBeFull }
    /// The disk may be full, so onDisconnect writes may be refused. Clients then queue only writes whose
    /// effect can be observed.
    var mayBeFull: Bool { checker.mayBeFull }
    /// The server, or its machine.
    var hasDied: Bool { disk.hasCrashed || server?.failure != nil }

    func note(_ event: @autoclosure () -> String) { log.note(event(), at: step) }
}
