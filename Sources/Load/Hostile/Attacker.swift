import PandoBytes
import PandoReactor

/// A kind of client that harms others. It says what its connections do; ``AttackThread`` does it, bounded in
/// connections, rate and memory.
protocol Attacker: Sendable {
    /// As `--only` and the report have it.
    var name: String { get }
    /// What it does, in a sentence.
    var summary: String { get }
    /// Data that must be there.
    var needs: Set<PreparedData> { get }
    /// Whether it opens as many connections as it may: those in one phase share what this process may open.
    var isFlood: Bool { get }
    /// Its connections.
    /// - Parameter share: How many it may open, if it ``isFlood``.
    func roles(at site: HostileSite, share: Int) -> [AttackRole]
}

extension Attacker {
    var needs: Set<PreparedData> { [] }
    var isFlood: Bool { false }
}

/// What some connections of an attacker do, all alike.
struct AttackRole: Sendable {
    enum Opening: Sendable { case tcp, webSocket }

    enum Reading: Sendable {
        case nothing
        case everything
        /// So many bytes a second, each connection.
        case paced(Int)
    }

    /// What a connection does when it has sent its burst.
    enum Next: Sendable {
        /// Stays as it is.
        case hold
        /// Sends the burst again as soon as the kernel has taken most of it.
        case sendAgain
        /// Sends the burst again when something has come and all was taken.
        case sendAgainWhenAnswered
        /// Hangs up when the server's kernel has taken everything, at the latest after `wait`, and connects
        /// again.
        case hangUp(after: Duration)
    }

    var connections: Int
    var opening: Opening
    /// Sent when the connection is open; the connections share its memory.
    var burst: SharedBytes?
    /// What ``burst`` asks for: number and name.
    var requests: (count: Int, unit: String) = (0, "")
    var reading: Reading
    var next: Next
}

/// All attackers, in the order in which they run.
/// - Parameters:
///   - connections: Connections of a flood at the most.
///   - halfMessages: Connections with half a message.
func allAttackers(connections: Int, halfMessages: Int) -> [any Attacker] {
    [
        FloodConnections(limit: connections), HalfHeads(limit: connections),
        PipelinedGets(node: .children20k, requestCount: 5000),
        PipelinedGets(node: .children200k, requestCount: 2000),
        StaleListens(), FailingTransactions(node: .children20k), FailingTransactions(node: .children200k),
        LargeGets(), UnreadOutput(), Pings(), ControlPings(), HalfMessages(limit: halfMessages),
        HalfBodies(limit: halfMessages), BigMessages(), BigBodies(), ManyWindows(),
    ]
}
