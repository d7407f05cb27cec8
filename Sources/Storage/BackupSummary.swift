import PandoEngine
import PandoJournal

/// Which state of which data directory a backup holds.
package struct BackupSummary: Sendable {
    /// The last record whose effect it holds.
    package var sequence: SequenceNumber
    /// Of that record, or later; milliseconds since 1970.
    package var timestamp: Int64
    /// The data directory whose state it is.
    package var directory: DirectoryID
    /// That of the last record.
    package var timeline: UInt32
    /// Of that timeline, as far as they are known.
    package var ancestors: [TimelineHistory.Ancestor] = []
    /// The newest timeline that is in use where the backup comes from: a restore begins a later one.
    package var newestTimeline: UInt32

    init(sequence: SequenceNumber, timestamp: Int64, directory: DirectoryID, timeline: UInt32) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.directory = directory
        self.timeline = timeline
        newestTimeline = timeline
    }

    package init(_ header: CheckpointHeader) {
        self.init(
            sequence: header.sequence, timestamp: header.timestamp, directory: header.directory,
            timeline: header.timeline)
    }

    /// The history of a timeline that continues here.
    func continued(by timeline: UInt32, of directory: DirectoryID) -> TimelineHistory {
        let source = TimelineHistory(timeline: self.timeline, directory: self.directory, ancestors: ancestors)
        return TimelineHistory(
            timeline: timeline, directory: directory, ancestors: source.ancestors(until: sequence))
    }
}
