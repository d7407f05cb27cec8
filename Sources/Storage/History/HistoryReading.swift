import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

extension DataDirectory {
    /// Answers a question from the files of a directory on which a server runs.
    /// - Parameter cancelled: Asked between two entries of the log, and between two records of a checkpoint.
    /// - Throws: ``HistoryFailure``.
    /// - Complexity: For the value, one read of a checkpoint and of the log behind it up to the moment; for the writes,
    ///   of the log back to the earliest that is listed. Memory for the value, the writes, and the largest entry of the
    ///   log.
    package static func history<Storage: Disk>(
        _ question: HistoryQuestion, on disk: Storage, cancelled: CancellationFlag
    ) throws(HistoryFailure) -> HistoryAnswer {
        var target = LocationTarget(question, cancelled)
        do throws(JournalError) {
            _ = try readDirectory(disk, until: .time(question.time), into: &target)
        } catch {
            if cancelled.isSet { throw .cancelled }
            guard case .beforeLog = error else { throw HistoryFailure(error) }
            throw .beyondReach(since: try orFail { () throws(JournalError) in try earliestTime(in: disk) })
        }
        guard let value = target.replay.value else { throw .valueTooLarge }
        var collector = WriteCollector(question, cancelled)
        try orFail { () throws(JournalError) in try readSegmentsBackward(disk, into: &collector) }
        if cancelled.isSet { throw .cancelled }
        if let problem = collector.problem { throw .unreadable(problem.reason) }
        let since = try orFail { () throws(JournalError) in try earliestTime(in: disk) }
        return HistoryAnswer(
            since: since, value: value, writes: Array(collector.writes.prefix(question.limit)),
            hasMore: collector.writes.count > question.limit)
    }

    private static func orFail<Result>(
        _ body: () throws(JournalError) -> Result
    ) throws(HistoryFailure) -> Result {
        do throws(JournalError) { return try body() } catch { throw HistoryFailure(error) }
    }
}

extension HistoryFailure {
    fileprivate init(_ error: JournalError) { self = .unreadable(error.description) }
}

/// Builds the value of one location from a checkpoint and the log behind it.
private struct LocationTarget: RecoveryTarget {
    private let question: HistoryQuestion
    private let cancelled: CancellationFlag
    private(set) var replay: SubtreeReplay

    init(_ question: HistoryQuestion, _ cancelled: CancellationFlag) {
        self.question = question
        self.cancelled = cancelled
        replay = SubtreeReplay(at: question.path, byteLimit: HistoryLimits.valueByteCount)
    }

    mutating func startOver() { replay.startOver() }

    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection) {
        // The caller looks at the flag, too: there is no other way to stop a reading.
        if cancelled.isSet { throw EntryRejection("cancelled") }
        guard record.namespace == question.namespace, let kind = LogRecord.Kind(record.kind) else { return }
        do throws(UnreadableRecord) { try replay.replay(kind, record.payload) } catch {
            throw EntryRejection(error.reason)
        }
    }

    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection) {
        if cancelled.isSet { throw EntryRejection("cancelled") }
        guard entry.lastSequence <= question.lastSequence else { return }
        try entry.forEach { record throws(EntryRejection) in try restore(record) }
    }
}

/// Collects the writes that concern one location, the newest first.
private struct WriteCollector: SegmentVisitor {
    private let question: HistoryQuestion
    private let cancelled: CancellationFlag
    /// The newest first; at most one more than the limit, which shows that there are more.
    private(set) var writes: [HistoryWrite] = []
    /// Those of the current segment, oldest first from `oldest` on, in a ring of the number that is wanted.
    private var ring: [HistoryWrite] = []
    private var oldest = 0
    /// A record could not be read.
    private(set) var problem: UnreadableRecord?

    init(_ question: HistoryQuestion, _ cancelled: CancellationFlag) {
        self.question = question
        self.cancelled = cancelled
    }

    private var wantedCount: Int { question.limit + 1 - writes.count }

    mutating func visit(_ entry: borrowing RecoveredEntry) -> Bool {
        guard !cancelled.isSet, problem == nil, entry.lastSequence <= question.lastSequence else {
            return false
        }
        var isWanted = true
        entry.forEach { record in
            if record.timestamp > question.time { isWanted = false }
            if let before = question.before, record.sequence >= before { isWanted = false }
            guard isWanted, problem == nil, record.namespace == question.namespace,
                let kind = LogRecord.Kind(record.kind)
            else { return }
            do throws(UnreadableRecord) {
                guard let touch = try LogRecord.touch(of: question.path, by: kind, record.payload) else {
                    return
                }
                add(HistoryWrite(time: record.timestamp, sequence: record.sequence, touch: touch))
            } catch {
                problem = error
            }
        }
        return isWanted && problem == nil
    }

    private mutating func add(_ write: HistoryWrite) {
        if ring.count < wantedCount {
            ring.append(write)
        } else {
            ring[oldest] = write
            oldest = (oldest + 1) % ring.count
        }
    }

    mutating func endSegment() -> Bool {
        writes += (ring[oldest...] + ring[..<oldest]).reversed()
        ring = []
        oldest = 0
        return writes.count <= question.limit && problem == nil && !cancelled.isSet
    }
}
