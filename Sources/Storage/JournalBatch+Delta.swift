import PandoEngine
import PandoJournal
import PandoRules

extension JournalBatch {
    /// Appends the records of a delta as one entry, which can be rolled back.
    /// - Parameters:
    ///   - credential: That of the command.
    ///   - recordCount: `delta.recordCount(hadQueue:)`; at least one.
    ///   - timestamp: Milliseconds since 1970.
    ///   - printed: Nodes of the delta that were printed before, if any.
    /// - Returns: A savepoint before the entry.
    /// - Complexity: O(bytes of the entry that were not printed before).
    package mutating func append(
        _ delta: inout Delta, by credential: borrowing Credential, recordCount: Int, namespace: UInt32,
        timestamp: Int64,
        using printed: inout PrintedNodes?
    ) -> Savepoint {
        let savepoint = savepoint
        for index in 0..<recordCount {
            beginRecord()
            let kind = delta.append(record: index, by: credential, to: &bytes, using: &printed)
            if let insertions = printed?.takeInsertions(), !insertions.isEmpty { insert(insertions) }
            endRecord(kind.journalKind, namespace: namespace, timestamp: timestamp)
        }
        endEntry()
        return savepoint
    }
}
