import Logging
import PandoConnections

/// Logs which requests are refused: each host and page once, and a bounded number of them.
struct ForeignRequestLog {
    /// Lines that one loop logs until the server stops: a page can make up names, and must not fill the log.
    /// Ours.
    private static let lineLimit = 100

    private var logged: Set<ForeignRequest> = []

    mutating func note(_ request: ForeignRequest, _ logger: Logger) {
        guard logged.count < Self.lineLimit, logged.insert(request).inserted else { return }
        logger.notice("refused a request: \(request.reason)")
        if logged.count == Self.lineLimit {
            logger.notice("further requests that --dev refuses are not logged")
        }
    }
}
