import PandoEngine
import PandoJournal
import PandoRules
import PandoStorage

/// Why a write was not done.
enum JournalRefusal: Error {
    /// It would write more than a record of the journal may hold, or replace more than it may.
    case tooLarge
    /// The disk is full.
    case diskFull
    /// Another thread has to find out whether the rules permit it: it is not refused.
    case undecided
}

/// Appends to the journal what commands change: one entry for each command, numbered by tickets. A command is
/// refused before it changes anything where the journal has no space for it.
///
///     append ──▶ batch of entries ──flush()──▶ journal thread
///        └─ rollback(to:), until the next append or flush
///
/// Where everything is kept in memory nothing is appended, and the last ticket remains 0.
struct JournalAppender: ~Copyable {
    private let journal: JournalQueue?
    /// Space of the journal that writes of clients leave to the ends of sessions, which cannot be refused.
    private let sessionEndReserveByteCount: Int
    /// The entries since the last flush.
    private var entries = JournalBatch()
    /// The ticket of the last entry.
    private(set) var lastTicket: UInt64 = 0
    /// Bytes that the journal thread was or will be handed, in all.
    private(set) var byteCount = 0
    /// Records that the journal was or will be handed, in all.
    private var recordCount: UInt64 = 0
    /// Where the journal ended when this process started.
    let origin: JournalOrigin
    /// Bytes of the entry that was refused last because the disk is full.
    private(set) var refusedByteCount = 0
    /// Nodes of the request being processed that were printed before, so that they are not printed again.
    var printed: PrintedNodes?

    /// Bytes of one record that a request may ask for: the largest write (`--max-write-bytes`), and less than
    /// an entry of the journal may have.
    private static let recordByteLimit = 256 << 20

    /// - Parameter journal: Nil where everything is kept in memory.
    init(_ journal: JournalQueue?, sessionEndReserveByteCount: Int, environment: Environment) {
        self.journal = journal
        self.sessionEndReserveByteCount = sessionEndReserveByteCount
        origin = journal?.origin ?? JournalOrigin(inMemory: environment)
    }

    /// Whether there is a journal.
    var isEnabled: Bool { journal != nil }

    /// Bytes of the entries since the last flush.
    var pendingByteCount: Int { entries.byteCount }

    /// The number of the last record.
    var lastSequence: SequenceNumber { SequenceNumber(origin.sequence.rawValue + recordCount) }

    // MARK: Space

    /// Whether the journal is sure to take so many bytes more. May wait for the journal thread
    /// (``JournalQueue/hasSpace(for:)``).
    func hasSpace(for byteCount: Int) -> Bool {
        journal?.hasSpace(for: self.byteCount + byteCount) ?? true
    }

    /// Whether a client's write of so many bytes is sure to have space, without waiting.
    func hasReservedSpace(forWriteOf byteCount: Int) -> Bool {
        journal?.hasReservedSpace(for: self.byteCount + byteCount + sessionEndReserveByteCount) ?? true
    }

    /// - Throws: ``JournalRefusal/diskFull`` where the journal has no space for a client's record with such a
    ///   payload.
    func checkSpace(forPayloadOf byteCount: Int) throws(JournalRefusal) {
        let recordByteCount = JournalFormat.recordByteCount(payloadByteCount: byteCount)
        guard hasSpace(for: recordByteCount + sessionEndReserveByteCount) else { throw .diskFull }
    }

    // MARK: Appending

    /// Appends a delta as one entry. O(bytes of the entry).
    /// - Parameters:
    ///   - credential: That of the command: the journal keeps who wrote.
    ///   - time: Milliseconds since 1970.
    /// - Returns: Where the entry begins, for ``rollback(to:)``; nil where there is nothing to append.
    /// - Throws: ``JournalRefusal``; then nothing was appended.
    mutating func append(
        _ delta: inout Delta, by credential: borrowing Credential, of database: StoredDatabase, at time: Int64
    ) throws(JournalRefusal) -> JournalBatch.Savepoint? {
        guard journal != nil else { return nil }
        let recordCount = delta.recordCount(hadQueue: database.engine.hasQueue(delta.session))
        guard recordCount > 0 else { return nil }
        let savepoint = entries.append(
            &delta, by: credential, recordCount: recordCount, namespace: database.id, timestamp: time,
            using: &printed)
        // The end of a session cannot be refused for its size, nor for the space that is left to it.
        let mayBeRefused = delta.result != nil
        let byteCount = entries.byteCount - savepoint.byteCount
        if mayBeRefused, byteCount > Self.recordByteLimit,
            entries.longestPayloadByteCount(since: savepoint) > Self.recordByteLimit
        {
            entries.rollback(to: savepoint)
            throw .tooLarge
        }
        guard hasSpace(for: byteCount + (mayBeRefused ? sessionEndReserveByteCount : 0)) else {
            entries.rollback(to: savepoint)
            refusedByteCount = byteCount
            // A write that changes nothing takes no space: a client that repeats a durable write gets its
            // acknowledgement.
            if database.engine.isRedundant(delta) { return nil }
            throw .diskFull
        }
        self.byteCount += byteCount
        self.recordCount += UInt64(recordCount)
        lastTicket += 1
        return savepoint
    }

    /// Removes the entry that was appended last, which has one record: it has changed nothing.
    mutating func rollback(to savepoint: JournalBatch.Savepoint) {
        // Or an acknowledgement would leave with the ticket of another entry.
        precondition(
            entries.recordCount(since: savepoint) == 1, "the last entry was flushed, or is not the last")
        byteCount -= entries.byteCount - savepoint.byteCount
        recordCount -= 1
        lastTicket -= 1
        entries.rollback(to: savepoint)
    }

    /// Appends a record as an entry of its own.
    /// - Precondition: There is space: ``checkSpace(forPayloadOf:)`` has not thrown.
    mutating func append(_ record: JournalRecord) {
        guard journal != nil else { return }
        let savepoint = entries.savepoint
        entries.append(entry: [record])
        byteCount += entries.byteCount - savepoint.byteCount
        lastTicket += 1
        recordCount += 1
    }

    // MARK: To the journal thread

    /// Hands the entries to the journal thread.
    mutating func flush() {
        if let journal, !entries.isEmpty { journal.post(&entries, upTo: lastTicket) }
        assert(entries.isEmpty)
    }

    /// Whether a checkpoint should be written before the server stops.
    var wantsFinalCheckpoint: Bool { journal?.wantsFinalCheckpoint ?? false }

    /// Has a checkpoint written.
    /// - Precondition: All entries were flushed, and the snapshot holds their effects and nothing else.
    func post(_ snapshot: Snapshot) {
        precondition(entries.isEmpty, "a checkpoint comes behind the entries that it holds")
        journal?.post(snapshot)
    }

    /// Has a snapshot given on when it is on disk.
    /// - Precondition: As ``post(_:)``.
    func post(_ snapshot: Snapshot, whenDurable body: @escaping @Sendable (CheckpointJob) -> Void) {
        precondition(entries.isEmpty, "a backup comes behind the entries that it holds")
        journal?.post(snapshot, whenDurable: body)
    }
}
