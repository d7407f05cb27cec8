import PandoReactor
import PandoTraffic

/// Where a hostile run finds the server, and where its data is.
struct HostileSite: Sendable {
    let target: LoadTarget
    let namespace: String
    let token: String?
    /// Without the leading slash: `pando-load/RUN-ID`.
    let root: String

    /// Path and query of the realtime endpoint.
    var realtimeTarget: String { "/.ws?v=5&ns=\(namespace)" }

    /// Path and query of a location in the REST interface.
    func restTarget(_ path: String) -> String { "/\(path).json?ns=\(namespace)" }
}

/// The honest clients that run beside the attackers.
enum HonestKind: String, CaseIterable, Sendable {
    /// Takes 12 MB at 60…250 KB/s, with a keep-alive every 45 s.
    case slowDownload = "slow-download"
    /// Reads one push of 5 MB at 30 KB/s.
    case slowPush = "slow-push"
    /// Asks for 1 MB 200 times in one burst and reads the answers as fast as it can.
    case burst
    /// Reads what a writer changes at 10 KB/s, and must have the final state at the end.
    case slowReaders = "slow-readers"
}

/// Everything a hostile run is asked for. Times are nanoseconds.
struct HostilePlan: Sendable {
    var site: HostileSite
    /// Those that run, in this order.
    var attackers: [any Attacker]
    var honest: Set<HonestKind>
    var phaseDuration: Int
    /// The bystander's operations a second.
    var rate: Double
    /// After a phase, answers that have not come in this time count as missing.
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
