import Synchronization

/// How far the server is: `/readyz` says so.
package final class ServerStatus: Sendable {
    package enum Phase: Equatable, Sendable {
        /// The data directory is being read.
        case recovering
        case ready
        /// Sessions are being ended; no connection is accepted.
        case draining

        var name: String {
            switch self {
            case .recovering: "recovering"
            case .ready: "ready"
            case .draining: "draining"
            }
        }
    }

    private let current = Mutex(Phase.recovering)

    package init() {}

    package var phase: Phase {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }
}
