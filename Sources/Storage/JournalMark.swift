import PandoJournal
import Synchronization

/// How far the journal is on disk, and how far it is archived. The journal thread publishes the one after
/// each sync, and the archive thread copies up to there; the checkpoint thread keeps for a while what is not
/// archived, and the backup thread tests what is.
package final class JournalMark: Sendable {
    private struct State {
        var position: JournalPosition?
        var archiving: SequenceNumber?
        var archived: ClosedRange<SequenceNumber>?
    }

    private let state = Mutex(State())

    package init() {}

    /// How far the journal is on disk; nil before the journal thread has begun.
    package var position: JournalPosition? {
        get { state.withLock { $0.position } }
        set { state.withLock { $0.position = newValue } }
    }

    /// The first sequence of the segment that is not archived as a whole yet; nil where nothing is archived.
    package var archiving: SequenceNumber? {
        get { state.withLock { $0.archiving } }
        set { state.withLock { $0.archiving = newValue } }
    }

    /// What the archive has without a gap, as far as that is known since the start: the last record before
    /// it, and its last record. Nil where nothing was archived since the start.
    package var archived: ClosedRange<SequenceNumber>? {
        get { state.withLock { $0.archived } }
        set { state.withLock { $0.archived = newValue } }
    }
}
