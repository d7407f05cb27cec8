import PandoJournal
import Synchronization

/// How far the log is on disk, and how far it is archived. The journal thread publishes the one after each sync, and the
/// archive thread copies up to there; the checkpoint thread keeps for a while what is not archived.
package final class LogMark: Sendable {
    private struct State {
        var position: LogPosition?
        var archiving: SequenceNumber?
    }

    private let state = Mutex(State())

    package init() {}

    /// How far the log is on disk; nil before the journal thread has begun.
    package var position: LogPosition? {
        get { state.withLock { $0.position } }
        set { state.withLock { $0.position = newValue } }
    }

    /// The first sequence of the segment that is not archived as a whole yet; nil where nothing is archived.
    package var archiving: SequenceNumber? {
        get { state.withLock { $0.archiving } }
        set { state.withLock { $0.archiving = newValue } }
    }
}
