import PandoJournal

/// Where the journal ended when its server started: before or behind what the start itself has appended.
package struct JournalOrigin: Sendable {
    /// The data directory of the journal.
    package var directory: DirectoryID
    /// The timeline on which the server goes on.
    package var timeline: UInt32
    /// The last record of the journal.
    package var sequence: SequenceNumber

    package init<Storage: Disk>(_ journal: borrowing Journal<Storage>) {
        directory = journal.directory
        timeline = journal.timeline
        sequence = journal.lastAppended
    }

    /// The origin of a server that keeps everything in memory: a random directory and an empty journal.
    package init(inMemory environment: Environment) {
        directory = DirectoryID(environment.randomBits(), environment.randomBits())
        timeline = 1
        sequence = .zero
    }
}

extension JournalOrigin {
    /// The timeline of a journal, with its ancestors.
    /// - Throws: ``JournalError/corrupt(_:)`` for a damaged history, ``JournalError/disk(_:)``.
    package func history(on disk: SystemDisk) throws(JournalError) -> TimelineHistory {
        let history = try TimelineHistory.read(timeline, on: disk)
        if let history, history.directory == directory { return history }
        return TimelineHistory(timeline: timeline, directory: directory)
    }
}
