import PandoReactor
import PandoTraffic

/// Everything a hostile run is asked for. Times are nanoseconds.
struct HostilePlan: Sendable {
    var site: HostileSite
    /// Those that run, in this order.
    var attackers: [any Attacker]
    /// Each of them has a phase of its own, too.
    var runsEachAttacker = true
    var honest: Set<HonestKind>
    var phaseDuration: Int
    /// The bystander's operations a second.
    var rate: Double
    /// After a phase, replies that have not come in this time count as missing.
    var patience: Int
    /// Longest time that memory is given to fall after a phase.
    var settling: Int
    var slowReaders: Int
    /// Bytes a second that one of ``slowReaders`` reads.
    var slowReaderPace: Int
    /// Values of 4 KB a second that the slow readers' writer sets.
    var writerRate: Double
    var attackThreads: Int
    /// Added to the niceness of the attackers' threads.
    var attackerNiceness: Int
    var hasControl: Bool
    var limits: HostileLimits
    var serverProcess: Int32?
}
