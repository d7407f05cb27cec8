import PandoEngine
import PandoJournal

extension EntryBatch {
    /// Appends the records of a delta as one entry, which may still be cut off again.
    /// - Returns: Where it begins.
    mutating func append(
        _ delta: inout Delta, recordCount: Int, namespace: UInt32, timestamp: Int64,
        using printed: inout PrintedNodes?
    ) -> Mark {
        let mark = mark
        for index in 0..<recordCount {
            let kind = delta.append(record: index, to: &payloads, using: &printed)
            endRecord(kind.journalKind, namespace: namespace, timestamp: timestamp)
        }
        endEntry()
        return mark
    }
}
