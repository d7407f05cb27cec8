import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// The work of the journal thread, one batch of requests at a time; it has no thread of its own.
///
///     entries ──▶ append … append ──▶ write ──▶ sync ──▶ durable(last ticket)      always
///                                          └──▶ durable(last ticket), sync after 100 ms     interval
///                                          └──▶ durable(last ticket), sync after a second   none
///
/// It also reserves space on the disk ahead of what is written (``JournalSpace``), has the next segment
/// prepared where every write is synced (`PreparedSegment`), and has checkpoints written: when
/// ``CheckpointSchedule`` says so, it asks the databases for a snapshot, which arrives behind the entries
/// that it holds, and so at an exact sequence.
///
/// Every error that it throws is final: nothing more may leave the process.
///
/// `@unchecked Sendable`: made before its thread begins, and used by that thread alone.
package final class JournalWriter<Storage: Disk>: @unchecked Sendable {
    private var journal: Journal<Storage>
    private let durability: Durability
    private let environment: Environment
    private let logger: Logger
    private let metrics: StorageMetrics
    private let callbacks: JournalCallbacks
    /// Where it says how far the journal is on disk; nil where no thread asks.
    private let mark: JournalMark?
    /// Its space, its pool of batches, and the flag for a long journal are set here.
    private let queue: JournalQueue
    /// When what was written must be synced; nil while everything is.
    private var syncDeadline: MonotonicTime?

    /// Reserve more when less than this is left.
    private let minimumReservedByteCount: Int
    /// Bytes appended to the journal in all.
    private var appendedByteCount = 0
    private var isDiskFull = false
    /// While the disk is full: when it is asked again for space.
    private var spaceRetryTime: MonotonicTime?

    private var checkpoints: CheckpointSchedule
    /// Whether the last checkpoint failed: then the space there is, is left to the next one.
    private var hasCheckpointFailed = false

    private var segmentCount: Int
    private var isRotationPostponed = false
    private var reportedPreparedCount = 0
    private var isPreparingSegment = false
    /// How many segments there were when the preparation of one was last asked for: once for each.
    private var preparedAtCount = 0

    private static var spaceRetryInterval: Duration { .seconds(1) }

    /// How long an acknowledged write may remain unsynced. Under `none` nothing is promised, but each sync
    /// moves the mark below which recovery can tell damage from a torn end.
    private static func syncInterval(_ durability: Durability) -> Duration {
        switch durability {
        case .always: .zero
        case .interval: .milliseconds(100)
        case .none: .seconds(1)
        }
    }

    /// - Parameters:
    ///   - queue: Where its requests come from, and where it publishes the space it has.
    ///   - callbacks: Called by ``process(_:)``.
    ///   - mark: Is set to how far the journal is on disk.
    package init(
        _ journal: consuming Journal<Storage>, options: StorageOptions, queue: JournalQueue,
        environment: Environment, metrics: StorageMetrics = StorageMetrics(), logger: Logger,
        _ callbacks: JournalCallbacks, mark: JournalMark? = nil
    ) {
        self.callbacks = callbacks
        self.metrics = metrics
        self.mark = mark
        // Recovery has made durable what it has read.
        mark?.position = journal.writtenPosition
        metrics.checkpointDueBytes.set(options.checkpointByteLimit)
        checkpoints = CheckpointSchedule(
            byteLimit: options.checkpointByteLimit, interval: options.checkpointInterval,
            journalByteCount: journal.recovery.replayedByteCount)
        segmentCount = journal.segmentCount
        self.journal = journal
        durability = options.durability
        minimumReservedByteCount = options.minimumReservedByteCount
        self.environment = environment
        self.queue = queue
        self.logger = logger
    }

    /// Segments that were prepared before they were begun.
    package var usedPreparedCount: Int { journal.usedPreparedCount }

    private var now: MonotonicTime { environment.monotonicTime }

    /// How long to wait for requests before ``process(_:)`` must be called without any; nil for ever.
    package var timeUntilDue: Duration? {
        let deadlines = [syncDeadline, spaceRetryTime, checkpoints.nextCheck].compactMap { $0 }
        return deadlines.min().map { max(.zero, $0 - now) }
    }

    /// Reserves the first space, and asks for a checkpoint if one is due. Before the first requests.
    /// - Throws: ``JournalError``, which is final.
    package func begin() throws(JournalError) {
        checkpoints.start(at: now)
        publishMetrics()
        try reserveSpace(for: 0)
        requestCheckpointIfDue()
    }

    /// Processes a batch of requests, and whatever is due, and leaves `batch` empty.
    /// - Returns: false after ``JournalRequest/stop``.
    /// - Throws: ``JournalError``, which is final; what is left in `batch` then means nothing.
    package func process(_ batch: inout [JournalRequest]) throws(JournalError) -> Bool {
        var lastTicket: UInt64?
        var goesOn = true
        var wantedByteCount = 0
        var snapshot: (content: Snapshot, sequence: SequenceNumber)?
        var backups: [(job: CheckpointJob, body: @Sendable (CheckpointJob) -> Void)] = []
        for index in batch.indices {
            // Moved out of the array: the entries have one owner, and their buffers can be used again.
            switch exchange(&batch[index], with: .reserve(0)) {
            case .entries(let entries, let ticket):
                assert(lastTicket ?? 0 < ticket, "tickets ascend")
                try append(consume entries)
                lastTicket = ticket
            case .checkpoint(let taken):
                snapshot = (taken, journal.lastAppended)
                checkpoints.snapshotTaken()
            case .backup(let taken, let body):
                backups.append((job(for: taken, at: journal.lastAppended), body))
            case .checkpointFinished(let isWritten):
                metrics.checkpoints.add(isWritten ? .written : .failed)
                checkpoints.finished(isWritten: isWritten, at: now)
                hasCheckpointFailed = !isWritten
                if hasCheckpointFailed, isPreparingSegment { callbacks.preparer.cancel() }
            case .segmentPrepared(let byteCount):
                isPreparingSegment = false
                if let byteCount { journal.usePreparedSegment(byteCount: byteCount) }
                if isDiskFull { spaceRetryTime = now }
            case .reserve(let byteCount): wantedByteCount = max(wantedByteCount, byteCount)
            case .stop: goesOn = false
            }
        }
        metrics.batches.observe(UInt64(batch.count))
        batch.removeAll(keepingCapacity: true)
        if lastTicket != nil {
            metrics.writtenBatchBytes.observe(UInt64(journal.pendingByteCount))
            metrics.writtenBytes.add(journal.pendingByteCount)
            try journal.write()
        }
        // A checkpoint must not hold what its journal could lose.
        try syncIfDue(
            hasWritten: lastTicket != nil, must: !goesOn || snapshot != nil || !backups.isEmpty)
        if let lastTicket { callbacks.report(.durable(upTo: lastTicket)) }
        for (job, body) in backups { body(job) }
        try reserveSpace(for: wantedByteCount)
        if let snapshot { write(snapshot.content, at: snapshot.sequence) }
        logPostponedRotation()
        logNewSegment()
        requestCheckpointIfDue()
        try prepareSegmentIfDue()
        publishMetrics()
        if !goesOn { try journal.releaseReservation() }
        return goesOn
    }

    private func append(_ entries: consuming JournalBatch) throws(JournalError) {
        let before = journal.pendingByteCount
        try journal.append(&entries)
        if entries.hasCapacity { queue.entryPool.release(consume entries) }
        appendedByteCount += journal.pendingByteCount - before
        checkpoints.journalGrew(by: journal.pendingByteCount - before)
    }

    private func syncIfDue(hasWritten: Bool, must: Bool) throws(JournalError) {
        if must {
            syncDeadline = nil
            return try sync()
        }
        switch durability {
        case .always:
            if hasWritten { try sync() }
        case .interval, .none:
            if hasWritten, syncDeadline == nil { syncDeadline = now + Self.syncInterval(durability) }
            if let syncDeadline, syncDeadline <= now {
                try sync()
                self.syncDeadline = nil
            }
        }
    }

    private func sync() throws(JournalError) {
        let began = MonotonicTime.now
        try journal.sync()
        metrics.syncs.observe((.now - began).nanosecondCount)
        mark?.position = journal.writtenPosition
    }

    private func publishMetrics() {
        metrics.uncoveredJournalBytes.set(checkpoints.journalByteCount)
        metrics.isDiskFull.set(isDiskFull ? 1 : 0)
    }

    // MARK: Space

    /// Reserves the next step where little is left, and more where the databases have asked for it.
    private func reserveSpace(for byteCount: Int) throws(JournalError) {
        let wanted = max(0, byteCount - appendedByteCount)
        let isDue = journal.reservedByteCount < minimumReservedByteCount || journal.reservedByteCount < wanted
        let mayAsk = !isDiskFull || wanted > 0 || spaceRetryTime.map { $0 <= now } ?? true
        if isDue, mayAsk {
            var hasSpace = try journal.reserve(max(wanted, minimumReservedByteCount))
            if !hasSpace, wanted > 0 { hasSpace = try journal.reserve(wanted) }
            // A segment being prepared gives its space back; `process` asks again once it has.
            if !hasSpace, isPreparingSegment { callbacks.preparer.cancel() }
            noteDisk(isFull: !hasSpace)
        } else if isDiskFull, mayAsk {
            // There is space again. A write that was refused for its size asks for its own space when the
            // client repeats it.
            noteDisk(isFull: false)
        }
        queue.space.update(granted: appendedByteCount + journal.reservedByteCount, isFull: isDiskFull)
    }

    private func noteDisk(isFull: Bool) {
        spaceRetryTime = isFull ? now + Self.spaceRetryInterval : nil
        guard isFull != isDiskFull else { return }
        isDiskFull = isFull
        if isFull {
            logger.error(
                "the disk is full: \(max(0, journal.reservedByteCount)) bytes are reserved for the journal; after that, writes are refused. Free some space: the server tries again every second"
            )
        } else {
            logger.notice("the disk has space again: writes are accepted")
            queue.space.update(granted: appendedByteCount + journal.reservedByteCount, isFull: false)
            callbacks.report(.spaceAvailable)
        }
    }

    // MARK: Segments

    /// Logs once that a full segment is still written to; the next new segment is logged anyway.
    private func logPostponedRotation() {
        let isPostponed = journal.postponedRotation != nil
        guard isPostponed != isRotationPostponed else { return }
        isRotationPostponed = isPostponed
        guard let failure = journal.postponedRotation else { return }
        logger.warning(
            "\(journal.segmentName) has reached its size; writing continues in it, since the next segment cannot be created (will retry): \(failure)"
        )
    }

    private func logNewSegment() {
        guard journal.segmentCount != segmentCount else { return }
        segmentCount = journal.segmentCount
        let how = usedPreparedCount > reportedPreparedCount ? ", prepared" : ""
        reportedPreparedCount = usedPreparedCount
        logger.info("a new segment of the journal: \(journal.segmentName)\(how)")
    }

    private func prepareSegmentIfDue() throws(JournalError) {
        // Space is scarce: it is left to writes and to checkpoints.
        if isDiskFull || hasCheckpointFailed { return try journal.discardPreparedSegment() }
        guard durability == .always, !isPreparingSegment, preparedAtCount != segmentCount,
            journal.wantsPreparedSegment
        else { return }
        isPreparingSegment = true
        preparedAtCount = segmentCount
        callbacks.preparer.prepare(journal.wantedPreparedByteCount)
    }

    // MARK: Checkpoints

    private func requestCheckpointIfDue() {
        queue.hasLongJournal.store(checkpoints.isLongJournal, ordering: .relaxed)
        if checkpoints.beginIfDue(at: now) { callbacks.report(.checkpointDue) }
    }

    private func write(_ snapshot: Snapshot, at sequence: SequenceNumber) {
        // An empty journal needs none.
        guard sequence > .zero else { return checkpoints.finished(isWritten: false, at: now) }
        checkpoints.began()
        callbacks.writeCheckpoint(job(for: snapshot, at: sequence))
    }

    private func job(for snapshot: Snapshot, at sequence: SequenceNumber) -> CheckpointJob {
        let header = CheckpointHeader(
            directory: journal.directory, timeline: journal.timeline, sequence: sequence,
            timestamp: snapshot.time)
        return CheckpointJob(header: header, snapshot: snapshot)
    }
}
