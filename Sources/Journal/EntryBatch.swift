import PandoBytes

/// Entries on their way to the journal: what a burst of commands wants written down, all payloads in one
/// buffer.
///
///     payloads   [ … | … | … | … ]
///     records      a   b   c   d     kind, namespace, time, where its payload ends
///     entries     └──────┘ └─┘ └─┘   recovered together or not at all
///
/// Whoever prints a payload appends it to ``payloads`` and ends the record; an array for each record, and one
/// for each entry, would cost more than the printing.
package struct EntryBatch: Sendable {
    struct Record {
        var kind: RecordKind
        var namespace: UInt32
        var timestamp: Int64
        var payloadEnd: Int
        /// The last of its entry.
        var isLast = false
    }

    /// A place to come back to.
    package struct Mark {
        fileprivate let payloadByteCount: Int
        fileprivate let recordCount: Int
        /// ``EntryBatch/byteCount`` there; what it is now less this is what came behind the mark. (Two
        /// numbers are compared where they are: a method of another module has its batch retained while it
        /// runs.)
        package let byteCount: Int
    }

    /// Payloads, and behind them what is being appended to the next.
    package var payloads: [UInt8] = []
    private(set) var records: ContiguousArray<Record> = []
    /// Bytes that it takes in the log.
    package private(set) var byteCount = 0

    package init() {}

    package var isEmpty: Bool { records.isEmpty }
    package var mark: Mark {
        Mark(payloadByteCount: payloads.count, recordCount: records.count, byteCount: byteCount)
    }

    private var lastPayloadEnd: Int { records.last?.payloadEnd ?? 0 }

    /// Ends a record: its payload is what has been appended to ``payloads`` since the one before it.
    /// - Parameter timestamp: When the server accepted it; milliseconds since 1970.
    package mutating func endRecord(_ kind: RecordKind, namespace: UInt32, timestamp: Int64) {
        byteCount += JournalFormat.recordByteCount(payloadByteCount: payloads.count - lastPayloadEnd)
        records.append(
            Record(kind: kind, namespace: namespace, timestamp: timestamp, payloadEnd: payloads.count))
    }

    /// Ends an entry: the records since the one before it belong together.
    /// - Precondition: There is at least one.
    package mutating func endEntry() {
        precondition(
            !records.isEmpty && !records[records.count - 1].isLast, "an entry has at least one record")
        records[records.count - 1].isLast = true
    }

    /// Appends an entry of one record.
    package mutating func append(_ record: JournalRecord) {
        payloads.append(record.payload.rawSpan)
        endRecord(record.kind, namespace: record.namespace, timestamp: record.timestamp)
        endEntry()
    }

    /// Records behind the mark.
    package func recordCount(since mark: Mark) -> Int { records.count - mark.recordCount }

    /// The longest payload behind the mark.
    package func longestPayloadByteCount(since mark: Mark) -> Int {
        var (longest, start) = (0, mark.payloadByteCount)
        for record in records[mark.recordCount...] {
            longest = max(longest, record.payloadEnd - start)
            start = record.payloadEnd
        }
        return longest
    }

    /// Forgets what came behind the mark.
    package mutating func cut(to mark: Mark) {
        payloads.removeLast(payloads.count - mark.payloadByteCount)
        records.removeLast(records.count - mark.recordCount)
        byteCount = mark.byteCount
        // What was refused may have been large, and the next may come late.
        if records.isEmpty, payloads.capacity > Self.keptByteLimit { payloads = [] }
    }

    /// An empty batch with room for as much as another one holds: bursts resemble each other.
    package init(withRoomFor other: EntryBatch) {
        payloads.reserveCapacity(min(other.payloads.count, Self.reservedByteLimit))
        records.reserveCapacity(
            min(other.records.count, Self.reservedByteLimit / MemoryLayout<Record>.stride))
    }

    /// Forgets everything and keeps its room, unless that is much.
    package mutating func removeAll() {
        let isKept = payloads.capacity + records.capacity * MemoryLayout<Record>.stride <= Self.keptByteLimit
        payloads.removeAll(keepingCapacity: isKept)
        records.removeAll(keepingCapacity: isKept)
        byteCount = 0
    }

    /// Whether there is room that was kept.
    package var hasRoom: Bool { payloads.capacity > 0 }

    /// Room that is taken in advance, for payloads and for records each; and what is kept of both together,
    /// since arrays grow to up to twice of what they hold.
    private static let reservedByteLimit = 256 << 10
    private static let keptByteLimit = 512 << 10
}

extension Journal {
    /// Accepts entries, each as ``append(entry:)`` does.
    /// - Throws: As there. Entries before the one that is refused are accepted.
    /// - Complexity: One copy of the payloads; no system call.
    package mutating func append(_ entries: EntryBatch) throws(JournalError) {
        try refuseIfPoisoned()
        var first = 0
        var entryStart = 0
        let all = entries.payloads.rawSpan
        while first < entries.records.count {
            var end = first
            while !entries.records[end].isLast { end += 1 }
            end += 1
            try refuseUnlessFits(entries.records[first..<end], from: entryStart)
            var start = entryStart
            for index in first..<end {
                let record = entries.records[index]
                var flags: RecordFlags = record.isLast ? .commit : []
                if index == first { flags.insert(.begin) }
                accept(
                    record.kind, flags, record.namespace, record.timestamp,
                    all.extracting(start..<record.payloadEnd))
                start = record.payloadEnd
            }
            (first, entryStart) = (end, start)
        }
    }

    private func refuseUnlessFits(
        _ records: ContiguousArray<EntryBatch.Record>.SubSequence, from start: Int
    ) throws(JournalError) {
        var (byteCount, start) = (0, start)
        for record in records {
            try refuseIfTooLarge(record.payloadEnd - start)
            byteCount += JournalFormat.recordByteCount(payloadByteCount: record.payloadEnd - start)
            start = record.payloadEnd
        }
        try refuseEntryIfTooLarge(byteCount)
    }
}
