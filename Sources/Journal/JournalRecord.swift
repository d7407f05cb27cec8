import PandoBytes

/// The number of a record in the log: 1 for the first, one more for each after it, never reused; 0 for "before the
/// first". Neither an index nor a count, since the log may begin later than at 1.
package struct SequenceNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// Before every record.
    package static let zero = SequenceNumber(0)

    /// The next number. It would wrap, but ``JournalFormat/firstSequenceLimit`` makes that impossible.
    package var successor: SequenceNumber { SequenceNumber(rawValue &+ 1) }

    package static func < (left: SequenceNumber, right: SequenceNumber) -> Bool {
        left.rawValue < right.rawValue
    }

    package var description: String { String(rawValue) }
}

/// 16 random bytes that identify a data directory. Each of its segments contains them.
package struct DirectoryID: Hashable, Sendable, CustomStringConvertible {
    let first: UInt64
    let second: UInt64

    package init(_ first: UInt64, _ second: UInt64) {
        self.first = first
        self.second = second
    }

    package var description: String { hexadecimal(first, digits: 16) + hexadecimal(second, digits: 16) }
}

/// The meaning of a payload to the host. The journal never reads payloads. The numbers never change.
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

/// The position of a record in its entry.
package struct RecordFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt16
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The first record of an entry.
    package static let begin = RecordFlags(rawValue: 1)
    /// The last record of an entry. The entry counts only if this record is on disk.
    package static let commit = RecordFlags(rawValue: 2)
}

/// One record to be appended.
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

/// One record that was read. The payload is borrowed, and must be copied to be kept.
package struct RecoveredRecord: ~Escapable {
    package let kind: RecordKind
    package let namespace: UInt32
    package let sequence: SequenceNumber
    /// Milliseconds since 1970.
    package let timestamp: Int64
    package let payload: RawSpan

    /// A record of a checkpoint has the sequence and the time of the checkpoint.
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

/// A whole and checked entry that was read. Valid only during the call that receives it.
package struct RecoveredEntry: ~Escapable {
    private let bytes: RawSpan

    /// The number of records, at least 1.
    package let recordCount: Int
    package let lastSequence: SequenceNumber

    /// - Parameter bytes: `recordCount` records one after the other, checked, and of known kinds.
    @_lifetime(copy bytes)
    init(bytes: RawSpan, recordCount: Int, lastSequence: SequenceNumber) {
        self.bytes = bytes
        self.recordCount = recordCount
        self.lastSequence = lastSequence
    }

    /// Calls `body` with each record, in order.
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
