import PandoJournal

/// A checkpoint to be written.
package struct CheckpointJob: Sendable {
    /// The journal up to its sequence is durable.
    package var header: CheckpointHeader
    /// Everything as it was behind that sequence.
    package var snapshot: Snapshot

    package init(header: CheckpointHeader, snapshot: Snapshot) {
        self.header = header
        self.snapshot = snapshot
    }
}
