import Logging
import PandoConnections
import PandoReactor
import PandoTime

/// The sessions by long polling of one loop: which wait for a poll, and which are to answer one at the end of
/// this tick. Confined to the loop.
final class PollingSessions {
    /// Sessions of the whole process between two polls: nothing but a client's word says that it is still
    /// there, and no descriptor bounds their number. Each loop may have an equal part. At one more, one of
    /// the address is ended that has most of them: the one that has not polled for longest. Ours.
    private static let disconnectedLimit = 16 << 10

    private let loop: EventLoop
    private let table: SessionTable
    private let directory: SessionDirectory
    private let loopCount: Int
    private let logger: Logger
    /// Those of which no poll waits, by the address at which they began.
    private var disconnected = AddressEvictionOrder()
    /// Those with polls that may be answered at the end of this tick.
    private var toAnswer: [PollingSession] = []
    /// Those that are over since this tick: they leave the table at its end, since outputs may be being dealt
    /// out.
    private var ended: [PollingSession] = []
    /// Sessions that were ended since the last report because too many had no poll.
    private var cutCount = 0
    private var throttle = ReportThrottle()

    init(
        _ table: SessionTable, on loop: EventLoop, _ directory: SessionDirectory, loopCount: Int,
        _ logger: Logger
    ) {
        self.table = table
        self.loop = loop
        self.directory = directory
        self.loopCount = loopCount
        self.logger = logger
    }

    /// No poll of the session waits: it is ended when too many are so.
    func disconnected(_ session: PollingSession) {
        // One that has moved to a WebSocket has given its slot away.
        guard table[session.id] === session else { return }
        disconnected.append(Int(session.id.slot), of: session.network)
        while disconnected.count > max(1, Self.disconnectedLimit / loopCount), let slot = disconnected.first {
            disconnected.remove(slot)
            cutCount += 1
            table.slots[slot]?.cut()
        }
        reportCuts()
    }

    /// A poll of the session waits, or the session is over.
    func connected(_ session: PollingSession) {
        guard table[session.id] === session else { return }
        disconnected.remove(Int(session.id.slot))
    }

    /// Polls of the session may be answered at the end of this tick.
    func answerAtEndOfTick(_ session: PollingSession) { toAnswer.append(session) }

    /// The session is over: it leaves the table at the end of this tick.
    func removeAtEndOfTick(_ session: PollingSession) { ended.append(session) }

    /// At the end of a tick.
    /// - Returns: Whether polls were answered, which may have led to messages for the databases.
    func endTick() -> Bool {
        let hasAnswered = !toAnswer.isEmpty
        if hasAnswered {
            for session in exchange(&toAnswer, with: []) { session.respondToPolls() }
            // Behind an answer there may have been another request.
            if !toAnswer.isEmpty { loop.wakeup.signal() }
        }
        if !ended.isEmpty {
            for session in exchange(&ended, with: []) {
                directory.remove(session.publicID)
                session.leave()
            }
        }
        return hasAnswered
    }

    /// Logs how many sessions were ended because too many had no poll, from time to time.
    private func reportCuts() {
        guard cutCount > 0, throttle.mayReport(at: loop.now) else { return }
        logger.warning(
            """
            long polling: ended \(cutCount) sessions of this thread since the last report, of the addresses with most \
            sessions without a poll; \(Self.disconnectedLimit) sessions may be between two polls
            """)
        cutCount = 0
    }
}
