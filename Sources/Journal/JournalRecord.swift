import PandoBytes

/// The place of a record in the log: 1 for the first, one more for each after it, never reused.
/// 0 stands before the first. Neither an index nor a count: the log may begin later than 1.
package struct SequenceNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// Before every record.
    package static let zero = SequenceNumber(0)

    /// The next one. Wraps, which ``JournalFormat/firstSequenceLimit`` keeps out of reach.
    package var successor: SequenceNumber { SequenceNumber(rawValue &+ 1) }

    package static func < (left: SequenceNumber, right: SequenceNumber) -> Bool {
        left.rawValue < right.rawValue
    }

    package var description: String { String(rawValue) }
}

/// 16 random bytes chosen when a data directory is made; each of its segments carries them.
package struct DirectoryID: Hashable, Sendable, CustomStringConvertible {
    let first: UInt64
    let second: UInt64

    package init(_ first: UInt64, _ second: UInt64) {
        self.first = first
        self.second = second
    }

    package var description: String { hexadecimal(first, digits: 16) + hexadecimal(second, digits: 16) }
}

/// What a payload means to the host; the journal keeps it and never looks inside. Numbers are for ever.
package enum RecordKind: UInt16, Sendable, CaseIterable {
    /// Resolved sets and removals of one namespace.
    case delta = 1
    /// The security rules of a namespace.
    case rules = 2
    case settings = 3
    case namespaceMade = 4
    case namespaceDeleted = 5
    /// Writes to run when a session ends, with the credential they run as.
    case onDisconnectRegistered = 6
    case onDisconnectCancelled = 7
    /// A part of a namespace's tree as it stands: checkpoints are made of them.
    case tree = 8
}

/// Where a record stands in its entry.
package struct RecordFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt16
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The first record of an entry.
    package static let begin = RecordFlags(rawValue: 1)
    /// The last record of an entry: with it on disk, the entry happened.
    package static let commit = RecordFlags(rawValue: 2)
}

/// One record as the host hands it in.
package struct JournalRecord: Sendable {
    package var kind: RecordKind
    package var namespace: UInt32
    /// When the server accepted it; milliseconds since 1970.
    package var timestamp: Int64
    package var payload: [UInt8]

    package init(_ kind: RecordKind, namespace: UInt32, timestamp: Int64, payload: [UInt8]) {
        self.kind = kind
        self.namespace = namespace
        self.timestamp = timestamp
        self.payload = payload
    }
}

/// One record as it was found in the log; lends its payload, which must be copied to be kept.
package struct RecoveredRecord: ~Escapable {
    package let kind: RecordKind
    package let namespace: UInt32
    package let sequence: SequenceNumber
    /// Milliseconds since 1970.
    package let timestamp: Int64
    package let payload: RawSpan

    /// A record of a checkpoint: of the moment that the checkpoint covers.
    @_lifetime(copy payload)
    init(kind: RecordKind, namespace: UInt32, of checkpoint: CheckpointHeader, payload: RawSpan) {
        self.kind = kind
        self.namespace = namespace
        self.sequence = checkpoint.sequence
        self.timestamp = checkpoint.timestamp
        self.payload = payload
    }

    @_lifetime(copy payload)
    init(kind: RecordKind, header: RecordHeader, payload: RawSpan) {
        self.kind = kind
        self.namespace = header.namespace
        self.sequence = header.sequence
        self.timestamp = header.timestamp
        self.payload = payload
    }
}

/// A whole entry as it was found in the log: happened, complete and checked. Valid only during the call that
/// receives it.
package struct RecoveredEntry: ~Escapable {
    private let bytes: RawSpan

    /// How many records, at least 1.
    package let recordCount: Int
    package let lastSequence: SequenceNumber

    /// - Parameter bytes: `recordCount` records, each checked, kinds known, one after another to the end.
    @_lifetime(copy bytes)
    init(bytes: RawSpan, recordCount: Int, lastSequence: SequenceNumber) {
        self.bytes = bytes
        self.recordCount = recordCount
        self.lastSequence = lastSequence
    }

    /// Lends each record to `body`, in order.
    package func forEach<Failure: Error>(
        _ body: (borrowing RecoveredRecord) throws(Failure) -> Void
    ) throws(Failure) {
        var offset = 0
        while offset < bytes.byteCount {
            let header = RecordHeader(bytes, at: offset)
            guard let kind = RecordKind(rawValue: header.rawKind) else {
                preconditionFailure("kinds were checked")
            }
            let start = offset + JournalFormat.recordHeaderByteCount
            let payload = bytes.extracting(start..<start + Int(header.payloadByteCount))
            try body(RecoveredRecord(kind: kind, header: header, payload: payload))
            offset += header.recordByteCount
        }
    }
}

/// `value` in base 16, padded with zeros to `digits`.
func hexadecimal(_ value: UInt64, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
}
