import PandoEngine
import PandoJournal
import PandoTree

/// What a location held at one moment, and who wrote there: a question to the files of a data directory.
package struct HistoryQuestion: Sendable {
    /// What of a history is read.
    package enum Part: Sendable {
        /// The value of the location, and its writes.
        case valueAndWrites
        /// Only its writes: no checkpoint is read.
        case writes
        /// The rules that were published, in place of writes. The location does not matter.
        case rules
    }

    package var part: Part
    /// The number of the namespace in the journal.
    package var namespace: UInt32
    package var path: Path
    /// Milliseconds since 1970. Writes of this millisecond count.
    package var time: Int64
    /// The most writes that are listed.
    package var limit: Int
    /// Only writes before this record are listed; nil for all.
    package var before: SequenceNumber?
    /// Records behind this one are ignored: they were perhaps not durable when the question was asked.
    package var lastSequence: SequenceNumber

    package init(
        _ part: Part = .valueAndWrites, namespace: UInt32, path: Path, time: Int64, limit: Int,
        before: SequenceNumber?, lastSequence: SequenceNumber
    ) {
        self.part = part
        self.namespace = namespace
        self.path = path
        self.time = time
        self.limit = limit
        self.before = before
        self.lastSequence = lastSequence
    }
}

/// One write, as a history lists it.
package struct HistoryWrite: Sendable, Equatable {
    /// Milliseconds since 1970.
    package var time: Int64
    /// Of its record.
    package var sequence: SequenceNumber
    /// Which of its locations are at, above or below the path, and who wrote it.
    package var touch: EngineRecord.Touch
}

/// Rules that were put in force.
package struct PublishedRules: Sendable, Equatable {
    /// Milliseconds since 1970.
    package var time: Int64
    /// Of their record.
    package var sequence: SequenceNumber
    /// The text as it was published, and by whom.
    package var publication: RulesPublication
}

/// The answer to a ``HistoryQuestion``.
package struct HistoryResult: Sendable {
    /// The earliest moment that the files reach; nil where nothing was written yet. Milliseconds since 1970.
    package var since: Int64?
    /// Nil where it was not asked for.
    package var value: Node?
    /// The newest first.
    package var writes: [HistoryWrite]
    /// The newest first.
    package var rules: [PublishedRules]
    /// There are earlier ones.
    package var hasMore: Bool
}

/// Why a ``HistoryQuestion`` has no answer.
package enum HistoryFailure: Error, Sendable {
    /// The moment is before the oldest checkpoint that is kept.
    case beyondReach(since: Int64?)
    /// The value was larger than ``HistoryLimits/valueByteCount``.
    case valueTooLarge
    /// The client has hung up, or the server stops.
    case cancelled
    /// The files are damaged, or could not be read; for the operator.
    case unreadable(String)
    /// Too many questions wait.
    case busy
}

/// Limits of histories.
package enum HistoryLimits {
    /// Bytes of JSON, about, of the value at the path: what a person looks at and a browser holds. The
    /// reading takes some times as much memory.
    package static let valueByteCount = 32 << 20
    /// Writes of one answer, and those of one without `limit`.
    package static let writeCount = 1000
    package static let usualWriteCount = 100
    /// Rules of one answer: 5 MiB of text, as each document has at most 256 KiB.
    package static let rulesCount = 20
    /// Questions that wait or are being answered. Each may take as long as a start of the server.
    package static let questionCount = 8
}
