import PandoBytes

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
    /// - Throws: What `body` throws.
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
