import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

/// Answers from the files of a directory what a location held, and who wrote there.
package enum HistoryReader {
    /// Answers a question from the files of a directory on which a server runs.
    /// - Parameter cancelled: Asked between two entries of the journal, and between two records of a
    ///   checkpoint.
    /// - Throws: ``HistoryFailure``.
    /// - Complexity: For the value, where it is asked for, one read of a checkpoint and of the journal behind
    ///   it up to the moment; for the writes, of the journal back to the earliest that is listed. Memory for
    ///   the value, the writes, and the largest entry of the journal.
    package static func history<Storage: Disk>(
        _ question: HistoryQuestion, on disk: Storage, cancelled: CancellationFlag
    ) throws(HistoryFailure) -> HistoryResult {
        var answer = HistoryResult(since: nil, value: nil, writes: [], rules: [], hasMore: false)
        if question.part == .valueAndWrites { answer.value = try value(question, on: disk, cancelled) }
        if question.part == .rules {
            (answer.rules, answer.hasMore) = try collect(question, on: disk, cancelled) {
                record throws(UnreadableRecord) in
                let publication: RulesPublication
                switch record.kind {
                case .publishedRules: publication = try RulesPublication(reading: record.payload)
                case .rules:
                    let source = withCursor(over: record.payload) { $0.array(0..<$0.count) }
                    publication = RulesPublication(uid: "", keyID: "", source: source)
                default: return nil
                }
                return PublishedRules(
                    time: record.timestamp, sequence: record.sequence, publication: publication)
            }
        } else {
            let path = question.path
            (answer.writes, answer.hasMore) = try collect(question, on: disk, cancelled) {
                record throws(UnreadableRecord) in
                guard let kind = EngineRecord.Kind(record.kind),
                    let touch = try EngineRecord.touch(of: path, by: kind, record.payload)
                else { return nil }
                return HistoryWrite(time: record.timestamp, sequence: record.sequence, touch: touch)
            }
        }
        answer.since = try orFail { () throws(JournalError) in try earliestTime(in: disk) }
        return answer
    }

    private static func value<Storage: Disk>(
        _ question: HistoryQuestion, on disk: Storage, _ cancelled: CancellationFlag
    ) throws(HistoryFailure) -> Node {
        var target = LocationTarget(question, cancelled)
        do throws(JournalError) {
            _ = try readDirectory(disk, until: .time(question.time), into: &target)
        } catch {
            if cancelled.isSet { throw .cancelled }
            guard case .beforeJournal = error else { throw HistoryFailure(error) }
            throw .beyondReach(since: try orFail { () throws(JournalError) in try earliestTime(in: disk) })
        }
        guard let value = target.replay.value else { throw .valueTooLarge }
        return value
    }

    /// What a question asks for of the records of its database, the newest first, and whether there is more.
    private static func collect<Found: Sendable, Storage: Disk>(
        _ question: HistoryQuestion, on disk: Storage, _ cancelled: CancellationFlag,
        find: @escaping (borrowing RecoveredRecord) throws(UnreadableRecord) -> Found?
    ) throws(HistoryFailure) -> ([Found], hasMore: Bool) {
        var collector = RecordCollector(question, cancelled, find: find)
        try orFail { () throws(JournalError) in try readSegmentsBackward(disk, into: &collector) }
        if cancelled.isSet { throw .cancelled }
        if let problem = collector.problem { throw .unreadable(problem.reason) }
        return (Array(collector.found.prefix(question.limit)), collector.found.count > question.limit)
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

/// Builds the value of one location from a checkpoint and the journal behind it.
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
        guard record.namespace == question.namespace, let kind = EngineRecord.Kind(record.kind) else {
            return
        }
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

/// Collects what is found in the records of one database, the newest first.
private struct RecordCollector<Found: Sendable>: SegmentVisitor {
    private let question: HistoryQuestion
    private let cancelled: CancellationFlag
    /// The newest first; at most one more than the limit, which shows that there are more.
    private(set) var found: [Found] = []
    /// Those of the current segment, oldest first from `oldest` on, in a ring of the number that is wanted.
    private var ring: [Found] = []
    private var oldest = 0
    /// A record could not be read.
    private(set) var problem: UnreadableRecord?
    /// What a record has that is asked for; nil for nothing.
    private let find: (borrowing RecoveredRecord) throws(UnreadableRecord) -> Found?

    init(
        _ question: HistoryQuestion, _ cancelled: CancellationFlag,
        find: @escaping (borrowing RecoveredRecord) throws(UnreadableRecord) -> Found?
    ) {
        self.question = question
        self.cancelled = cancelled
        self.find = find
    }

    private var wantedCount: Int { question.limit + 1 - found.count }

    mutating func visit(_ entry: borrowing RecoveredEntry) -> Bool {
        guard !cancelled.isSet, problem == nil, entry.lastSequence <= question.lastSequence else {
            return false
        }
        var isWanted = true
        entry.forEach { record in
            if record.timestamp > question.time { isWanted = false }
            if let before = question.before, record.sequence >= before { isWanted = false }
            guard isWanted, problem == nil, record.namespace == question.namespace else { return }
            do throws(UnreadableRecord) {
                if let item = try find(record) { add(item) }
            } catch {
                problem = error
            }
        }
        return isWanted && problem == nil
    }

    private mutating func add(_ item: Found) {
        if ring.count < wantedCount {
            ring.append(item)
        } else {
            ring[oldest] = item
            oldest = (oldest + 1) % ring.count
        }
    }

    mutating func endSegment() -> Bool {
        found += (ring[oldest...] + ring[..<oldest]).reversed()
        ring = []
        oldest = 0
        return found.count <= question.limit && problem == nil && !cancelled.isSet
    }
}
