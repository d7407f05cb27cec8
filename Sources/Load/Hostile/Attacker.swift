import PandoBytes
import PandoReactor

/// A kind of client that harms others. It describes its connections; ``AttackThread`` runs them, with a
/// bounded number of connections, rate and memory.
protocol Attacker: Sendable {
    /// The name in `--only` and in the report.
    var name: String { get }
    /// A description in one sentence.
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

/// The behaviour of connections of an attacker.
struct AttackRole: Sendable {
    enum Opening: Sendable { case tcp, webSocket }

    enum Reading: Sendable {
        case nothing
        case everything
        /// Bytes a second, of each connection.
        case paced(Int)
    }

    /// What a connection does when it has sent its burst.
    enum Next: Sendable {
        /// Sends nothing more.
        case hold
        /// Sends the burst again as soon as the kernel has taken most of it.
        case sendAgain
        /// Sends the burst again after a response, when the burst was sent completely.
        case sendAgainWhenAnswered
        /// Disconnects when the server's kernel has acknowledged everything, at the latest after `wait`, and
        /// connects again.
        case hangUp(after: Duration)
    }

    var connections: Int
    var opening: Opening
    /// Sent when the connection is open; the connections share its memory.
    var burst: SharedBytes?
    /// The requests in ``burst``: their number and name.
    var requests: (count: Int, unit: String) = (0, "")
    var reading: Reading
    var next: Next
}
