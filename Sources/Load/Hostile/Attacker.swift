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
    enum Opening: Sendable, Equatable {
        case tcp, webSocket
        /// A session by long polling (realtime §1.5). The burst is data of its first poll's URL. Then it
        /// polls without data each time that `every` has passed, or, with nil, never again; its
        /// ``AttackRole/next`` is `hold`.
        case polling(every: Duration?)
    }

    enum Reading: Sendable {
        case nothing
        case everything
        /// Bytes a second, of each connection; before that nothing for some time.
        case paced(Int, after: Duration = .zero)
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
    /// Each connection sends one of them when it is open; they take them in turn, and share their memory.
    var bursts: [SharedBytes] = []
    /// The requests in a burst: their number and name.
    var requests: (count: Int, unit: String) = (0, "")
    var reading: Reading
    var next: Next
}

extension AttackRole {
    /// Connections that send the same.
    init(
        connections: Int, opening: Opening, burst: SharedBytes,
        requests: (count: Int, unit: String) = (0, ""),
        reading: Reading, next: Next
    ) {
        self.init(
            connections: connections, opening: opening, bursts: [burst], requests: requests, reading: reading,
            next: next)
    }
}
