/// Builds a state from the records of a data directory.
///
/// It gets the records of one checkpoint, if there is one, and then the entries behind it. It throws for a
/// record that it cannot apply. In a checkpoint, recovery then falls back to the one before; in the journal,
/// it refuses the journal.
package protocol RecoveryTarget {
    /// Drops the state: the records so far were of a checkpoint that is damaged.
    mutating func startOver()
    /// Applies a record of a checkpoint.
    /// - Throws: ``EntryRejection`` for a record that cannot be applied.
    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection)
    /// Applies an entry of the journal.
    /// - Throws: ``EntryRejection`` for an entry that cannot be applied.
    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection)
}
