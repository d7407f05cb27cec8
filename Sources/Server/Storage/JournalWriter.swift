import Logging
import PandoJournal
import PandoReactor

/// The journal's work, one batch of orders at a time; no thread of its own.
///
///     entries ──▶ append … append ──▶ write ──▶ sync ──▶ durable(last ticket)      always
///                                          └──▶ durable(last ticket), sync by the clock    interval
///                                          └──▶ durable(last ticket), sync now and then    none
///
/// It also keeps room ahead of what is written (``LogSpace``), has the next segment prepared where every
/// write is synced (``PreparedSegment``), and has checkpoints made: when enough log has gathered it asks the
/// database thread for a snapshot, which comes back among the entries and so stands at an exact sequence.
///
/// Any error it throws is final: nothing more may leave the process.
///
/// `@unchecked Sendable`: made before its thread begins, and used by nobody else.
final class JournalWriter<Storage: Disk>: @unchecked Sendable {
    private var journal: Journal<Storage>
    private let durability: Durability
    private let tell: @Sendable (DatabaseMessage) -> Void
    private let logger: Logger
    /// When what was written must be synced; nil when all is.
    private var syncDeadline: MonotonicTime?

    private let surroundings: Environment
    private let space: LogSpace
    private let lowRoomByteCount: Int
    /// Bytes handed to the journal in all.
    private var appendedByteCount = 0
    private var isFull = false
    /// When the disk is asked again for room.
    private var roomDeadline: MonotonicTime?

    private let writeCheckpoint: @Sendable (CheckpointJob) -> Void
    private let checkpointByteLimit: Int
    private let checkpointInterval: Duration
    private let hasMuchLog: JournalQueue.Flag
    private let spareEntries: BufferPool<LogBatch>
    /// Bytes of log that no checkpoint has yet.
    private var logByteCount: Int
    /// What of them the checkpoint under way takes.
    private var snapshotByteCount = 0
    private var isCheckpointing = false
    /// The clock's next checkpoint; nil for none.
    private var checkpointDeadline: MonotonicTime?
    /// After a checkpoint for which there was no room: none before this.
    private var checkpointPause: MonotonicTime?
    private var segmentCount: Int
    private var isRotationPostponed = false
    private var reportedPreparedCount = 0

    private let preparer: SegmentPreparer
    private var isPreparingSegment = false
    /// The last checkpoint came to nothing: what room there is, is for the next.
    private var hasCheckpointFailed = false
    /// Segments there were when one was last asked for: once for each.
    private var preparedAtCount = 0

    private static var roomRetryInterval: Duration { .seconds(1) }
    private static var checkpointRetryInterval: Duration { .seconds(30) }

    /// How old an acknowledged write may be before it is synced. Under `none` nothing is promised, but each
    /// sync moves the mark below which recovery can tell damage from a torn end.
    private static func syncInterval(_ durability: Durability) -> Duration {
        switch durability {
        case .always: .zero
        case .interval: .milliseconds(100)
        case .none: .seconds(1)
        }
    }

    /// - Parameters:
    ///   - tell: Hears of each ticket up to which everything is as durable as `durability` asks, when a
    ///     checkpoint is due, and when there is room again.
    ///   - writeCheckpoint: Has a checkpoint written, and answers with
    ///     ``JournalOrder/checkpointFinished(isWritten:)``.
    ///   - preparer: Has a segment prepared, and answers with ``JournalOrder/segmentPrepared(byteCount:)``.
    init(
        _ journal: consuming Journal<Storage>, configuration: Configuration, door: JournalQueue,
        surroundings: Environment, logger: Logger, tell: @escaping @Sendable (DatabaseMessage) -> Void,
        writeCheckpoint: @escaping @Sendable (CheckpointJob) -> Void,
        preparer: SegmentPreparer
    ) {
        self.preparer = preparer
        logByteCount = journal.recovery.replayedByteCount
        segmentCount = journal.segmentCount
        self.journal = journal
        durability = configuration.durability
        lowRoomByteCount = configuration.lowRoomByteCount
        checkpointByteLimit = configuration.checkpointByteLimit
        checkpointInterval = configuration.checkpointInterval
        self.tell = tell
        self.surroundings = surroundings
        space = door.space
        hasMuchLog = door.hasMuchLog
        spareEntries = door.spareEntries
        self.writeCheckpoint = writeCheckpoint
        self.logger = logger
    }

    /// Segments that were prepared before they were begun.
    var usedPreparedCount: Int { journal.usedPreparedCount }

    private var now: MonotonicTime { surroundings.monotonicTime }

    /// How long it may wait for orders before it must be called without any; nil for ever.
    var timeUntilDue: Duration? {
        let deadlines = [syncDeadline, roomDeadline, checkpointMoment].compactMap { $0 }
        return deadlines.min().map { max(.zero, $0 - now) }
    }

    /// Before the first orders.
    func begin() throws(JournalError) {
        if checkpointInterval > .zero { checkpointDeadline = now + checkpointInterval }
        try keepRoom(for: 0)
        askForCheckpointIfDue()
    }

    /// Does what it is told, and leaves no order.
    /// - Returns: false when it was told to stop.
    /// - Throws: What is final; then orders are left that mean nothing.
    func take(_ batch: inout [JournalOrder]) throws(JournalError) -> Bool {
        var last: UInt64?
        var goesOn = true
        var wantedByteCount = 0
        var snapshot: (job: Snapshot, sequence: SequenceNumber)?
        for index in batch.indices {
            // Out of the array: entries that nobody else holds go back with their room.
            var order = JournalOrder.reserve(0)
            swap(&order, &batch[index])
            switch consume order {
            case .entries(var entries, let ticket):
                let before = journal.pendingByteCount
                try journal.append(&entries)
                if entries.hasCapacity { spareEntries.release(consume entries) }
                last = ticket
                appendedByteCount += journal.pendingByteCount - before
                logByteCount += journal.pendingByteCount - before
            case .checkpoint(let taken):
                snapshot = (taken, journal.lastAppended)
                snapshotByteCount = logByteCount
            case .checkpointFinished(let isWritten):
                finishCheckpoint(isWritten)
                hasCheckpointFailed = !isWritten
                if hasCheckpointFailed, isPreparingSegment { preparer.abandon() }
            case .segmentPrepared(let byteCount):
                isPreparingSegment = false
                if let byteCount { journal.usePreparedSegment(byteCount: byteCount) }
                if isFull { roomDeadline = now }
            case .reserve(let byteCount): wantedByteCount = max(wantedByteCount, byteCount)
            case .stop: goesOn = false
            }
        }
        batch.removeAll(keepingCapacity: true)
        if last != nil { try journal.write() }
        // A checkpoint must not be ahead of its log.
        try syncIfDue(hasWritten: last != nil, must: !goesOn || snapshot != nil)
        if let last { tell(.durable(last)) }
        try keepRoom(for: wantedByteCount)
        if let snapshot { write(snapshot.job, at: snapshot.sequence) }
        notePostponedRotation()
        if journal.segmentCount != segmentCount {
            segmentCount = journal.segmentCount
            let how = usedPreparedCount > reportedPreparedCount ? ", prepared" : ""
            reportedPreparedCount = usedPreparedCount
            logger.info("a new segment of the log: \(journal.segmentName)\(how)")
        }
        askForCheckpointIfDue()
        try askForSegmentIfDue()
        if !goesOn { try journal.releaseReservation() }
        return goesOn
    }

    /// Says once that a full segment goes on; that the next one was begun is said anyway.
    private func notePostponedRotation() {
        let isPostponed = journal.postponedRotation != nil
        guard isPostponed != isRotationPostponed else { return }
        isRotationPostponed = isPostponed
        guard let failure = journal.postponedRotation else { return }
        logger.warning(
            "\(journal.segmentName) is full and goes on, the next segment will be tried again: \(failure)")
    }

    private func syncIfDue(hasWritten: Bool, must: Bool) throws(JournalError) {
        if must {
            syncDeadline = nil
            return try journal.sync()
        }
        switch durability {
        case .always:
            if hasWritten { try journal.sync() }
        case .interval, .none:
            if hasWritten, syncDeadline == nil { syncDeadline = now + Self.syncInterval(durability) }
            if let syncDeadline, syncDeadline <= now {
                try journal.sync()
                self.syncDeadline = nil
            }
        }
    }

    // MARK: Room

    /// Keeps some room ahead, and more when the database thread has asked for it.
    private func keepRoom(for byteCount: Int) throws(JournalError) {
        let wanted = max(0, byteCount - appendedByteCount)
        let isDue = journal.reservedByteCount < lowRoomByteCount || journal.reservedByteCount < wanted
        let mayAsk = !isFull || wanted > 0 || roomDeadline.map { $0 <= now } ?? true
        if isDue, mayAsk {
            var hasRoom = try journal.reserve(max(wanted, lowRoomByteCount))
            if !hasRoom, wanted > 0 { hasRoom = try journal.reserve(wanted) }
            // At once, and again when it has let go of its room: see `take(_:)`.
            if !hasRoom, isPreparingSegment { preparer.abandon() }
            note(isFull: !hasRoom)
        } else if isFull, mayAsk {
            // There is some: what was too much for it is tried again when somebody asks again.
            note(isFull: false)
        }
        space.set(granted: appendedByteCount + journal.reservedByteCount, isFull: isFull)
    }

    private func note(isFull isFullNow: Bool) {
        roomDeadline = isFullNow ? now + Self.roomRetryInterval : nil
        guard isFullNow != isFull else { return }
        isFull = isFullNow
        if isFull {
            logger.error(
                "the disk is full: \(max(0, journal.reservedByteCount)) bytes of room are left for the log; then writes are refused until there is more"
            )
        } else {
            logger.notice("there is room on the disk again: writes are taken")
            space.set(granted: appendedByteCount + journal.reservedByteCount, isFull: false)
            tell(.spaceAvailable)
        }
    }

    // MARK: The next segment

    private func askForSegmentIfDue() throws(JournalError) {
        // Room is scarce: what is there is for writes and for checkpoints.
        if isFull || hasCheckpointFailed { return try journal.discardPreparedSegment() }
        guard durability == .always, !isPreparingSegment, preparedAtCount != segmentCount,
            journal.wantsPreparedSegment
        else { return }
        isPreparingSegment = true
        preparedAtCount = segmentCount
        preparer.prepare(journal.wantedPreparedByteCount)
    }

    // MARK: Checkpoints

    /// When ``askForCheckpointIfDue()`` has something to do without anything being written; nil for never.
    private var checkpointMoment: MonotonicTime? {
        guard !isCheckpointing else { return nil }
        if logByteCount >= checkpointByteLimit { return checkpointPause ?? checkpointDeadline }
        return checkpointDeadline.map { max($0, checkpointPause ?? $0) }
    }

    private func askForCheckpointIfDue() {
        hasMuchLog.isSet.store(
            !isCheckpointing && logByteCount >= checkpointByteLimit / 4, ordering: .relaxed)
        guard !isCheckpointing, checkpointPause.map({ $0 <= now }) ?? true else { return }
        let isTime = checkpointDeadline.map { $0 <= now } ?? false
        guard logByteCount >= checkpointByteLimit || isTime else { return }
        if checkpointInterval > .zero { checkpointDeadline = now + checkpointInterval }
        guard logByteCount > 0 else { return }
        isCheckpointing = true
        tell(.checkpointDue)
    }

    private func write(_ snapshot: Snapshot, at sequence: SequenceNumber) {
        guard sequence > .zero else { return finishCheckpoint(false) }
        isCheckpointing = true
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline, sequence: sequence,
            timestamp: snapshot.time)
        writeCheckpoint(CheckpointJob(header: header, snapshot: snapshot))
    }

    private func finishCheckpoint(_ isWritten: Bool) {
        isCheckpointing = false
        if isWritten { logByteCount -= snapshotByteCount }
        checkpointPause = isWritten ? nil : now + Self.checkpointRetryInterval
    }
}

/// Whoever prepares segments for a ``JournalWriter``.
struct SegmentPreparer: Sendable {
    /// Has a file of so many bytes made; one at a time.
    var prepare: @Sendable (_ byteCount: Int) -> Void
    /// Has it given up, if it is not yet there.
    var abandon: @Sendable () -> Void
}
