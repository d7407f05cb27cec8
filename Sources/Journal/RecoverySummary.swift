/// What the opening of a journal found and did.
package struct RecoverySummary: Equatable, Sendable {
    /// The directory contained no journal, and a new one was made.
    package var isNew = false
    /// The checkpoint that the journal was replayed onto; nil when it was read from its beginning.
    package var checkpoint: CheckpointHeader?
    package var checkpointByteCount = 0
    package var checkpointRecordCount = 0
    /// Checkpoints that were skipped because they are damaged, or because the disk cannot read them, the
    /// newest first. ``Journal/open(on:newDirectoryID:timeline:options:into:)`` renames the damaged ones.
    package var damagedCheckpoints: [JournalProblem] = []
    /// Those that the disk cannot read.
    package var unreadableCheckpoints: Set<String> {
        Set(damagedCheckpoints.filter(\.flaw.isReadFailure).map(\.file))
    }
    /// The id of the directory; nil for one without a journal, unless a new one was made.
    package var directory: DirectoryID?
    package var timeline: UInt32 = 0
    /// The segments that were read, or begun to be read, in order; without those before the checkpoint.
    var segments: [SegmentName] = []
    /// Their number, with one that was made.
    package var segmentCount = 0
    /// Whole entries in these segments, those before the checkpoint included.
    package var entryCount = 0
    package var recordCount = 0
    /// Bytes of the entries after the checkpoint.
    package var replayedByteCount = 0
    /// The last record of the journal. It is on disk.
    package var lastSequence = SequenceNumber.zero
    /// There are entries behind the moment up to which the directory was read.
    package var hasReachedMoment = false
    /// What was truncated at the end; nil where the journal ended with a whole entry.
    package var tornTail: TornTail?
    package var tornByteCount: Int { tornTail?.byteCount ?? 0 }
    /// Prepared bytes at the end that were never used, and were truncated as well.
    package var unfilledByteCount = 0

    /// Notes that the journal ends behind ``lastSequence``, at an offset in its last segment.
    mutating func noteTornTail(_ byteCount: Int, at byteOffset: Int, of segment: SegmentName) {
        tornTail = TornTail(
            segment: segment, byteOffset: byteOffset, sequence: lastSequence.successor, byteCount: byteCount)
    }
}
