/// Divides the descriptors that the process may have, so that connections never use up those that files need.
///
///     limit ┌──────────────────────────────────────────────────────────────────────────────────────────┐
///           │ open at start │ standing │ program │ other ports │ accepting │ administrators │ clients … │
///           └──────────────────────────────────────────────────────────────────────────────────────────┘
package struct DescriptorBudget: Equatable, Sendable, CustomStringConvertible {
    /// Descriptors that a server always has open: the listening socket, the data directory
    /// (three times, with its lock and the segment being written), the eventfds of its threads and of
    /// libdispatch. Measured: 20.
    package static let standingCount = 32
    /// An I/O loop's two epoll sets (``Poller``) and its eventfd.
    package static let countPerLoop = 3

    /// Descriptors for what the program opens from time to time. If all is open at once:
    ///
    /// | for | at once |
    /// |---|---|
    /// | the next segment of the journal, beside the one being written | 1 |
    /// | the file of a segment that is prepared | 1 |
    /// | a checkpoint being written, and the directory listed for those it supersedes | 2 |
    /// | a scheduled backup and its directory, and the pipe of a restore test | 5 |
    /// | the archive's directory, a segment and its copy, each twice while they are compared | 6 |
    /// | the locks of both directories, and a look at one of them | 4 |
    /// | rules files, read again at SIGHUP, with their directory | 2 |
    /// | key, secret and revocation files, read again when they change | 4 |
    /// | keys fetched from three issuers: socket, resolver, libcurl's and libdispatch's own | 24 |
    /// | files that the C library opens for itself (name service, time zone, `/proc`) | 6 |
    ///
    /// That is 55. A directory sync uses the directory that is open, and a backup is sent from memory over
    /// its client's connection.
    package static let programReserve = 64

    /// Connections that are accepted above the ceiling while loops close others for them.
    package static let acceptingReserve = 16
    /// Connections that are accepted for administrators when no other can be closed. As many again are
    /// accepted while those among them that have sent no request are being closed.
    package static let administratorReserve = 4

    /// With fewer connections the server does not start: the limit was set by mistake.
    package static let connectionMinimum = 32
    /// A loop numbers its connections with 24 bits, and a connection that becomes a WebSocket uses two
    /// numbers for a moment.
    package static let connectionMaximum = 1 << 23

    /// The descriptors that the process may have.
    package let limit: Int
    /// Client connections that may be open at once, the administrators' reserve not counted.
    package let connectionCeiling: Int

    /// - Parameters:
    ///   - limit: The soft limit, after it was raised (``raiseDescriptorLimit()``).
    ///   - openCount: Descriptors that are open before the server opens any.
    ///   - loopCount: I/O loops.
    ///   - otherPortCount: Listening sockets but for one, and connections that are not clients'.
    /// - Throws: ``TooFewDescriptors`` when fewer than ``connectionMinimum`` connections are left.
    package init(limit: Int, openCount: Int, loopCount: Int, otherPortCount: Int) throws(TooFewDescriptors) {
        let needed =
            openCount + Self.standingCount + loopCount * Self.countPerLoop + Self.programReserve
            + otherPortCount + Self.acceptingReserve + 2 * Self.administratorReserve
        guard limit - needed >= Self.connectionMinimum else {
            throw TooFewDescriptors(limit: limit, minimum: needed + Self.connectionMinimum)
        }
        self.limit = limit
        connectionCeiling = min(limit - needed, Self.connectionMaximum)
    }

    package var description: String {
        "at most \(connectionCeiling) clients are connected at once: the process may have \(limit) descriptors (ulimit -Hn), and the others are reserved for files, threads, other ports and administrators"
    }

    /// The budget of this process. Call it before the server opens anything.
    /// - Throws: As ``init(limit:openCount:loopCount:otherPortCount:)``.
    package static func ofProcess(
        loopCount: Int, otherPortCount: Int
    ) throws(TooFewDescriptors) -> DescriptorBudget {
        try DescriptorBudget(
            limit: descriptorLimit(), openCount: openDescriptorCount(), loopCount: loopCount,
            otherPortCount: otherPortCount)
    }
}

/// The limit of descriptors is too small for a server.
package struct TooFewDescriptors: Error, Equatable, Sendable, CustomStringConvertible {
    /// The limit of this process.
    package let limit: Int
    /// The smallest limit with which the server starts.
    package let minimum: Int

    package var description: String {
        "the process may have \(limit) descriptors, and the server needs at least \(minimum): raise the hard limit (ulimit -Hn, LimitNOFILE of systemd)"
    }
}
