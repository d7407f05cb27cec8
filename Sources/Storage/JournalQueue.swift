import PandoJournal
import PandoReactor
import Synchronization

/// What the journal thread is asked to do.
package enum JournalRequest: Sendable {
    /// Append these entries.
    /// - Parameter upTo: The ticket of the last of them; tickets count entries, so each entry has one.
    case entries(JournalBatch, upTo: UInt64)
    /// Write a checkpoint that holds everything up to the entries before it.
    case checkpoint(Snapshot)
    /// Give a snapshot on when everything up to the entries before it is on disk.
    case backup(Snapshot, @Sendable (CheckpointJob) -> Void)
    /// The checkpoint thread has finished, successfully or not.
    case checkpointFinished(isWritten: Bool)
    /// The segment thread has finished: the file of the next segment has this many bytes; nil where it could
    /// not be made.
    case segmentPrepared(byteCount: Int?)
    /// Reserve space for this many bytes in all.
    case reserve(Int)
    /// Make everything durable, and end.
    case stop
}

/// The databases' side of the journal: a queue of requests, and what the journal thread publishes. Behind it
/// works a thread (``JournalThread``) or a simulation.
///
/// Methods without "any thread" are for one thread at a time: the one that runs the databases.
package final class JournalQueue: Sendable {
    /// The mailbox that the journal's writer drains.
    package let requests: Mailbox<JournalRequest>
    /// The space that the disk has granted.
    package let space: JournalSpace
    /// Where the journal ended before the first request.
    package let origin: JournalOrigin
    /// Set by the writer while the journal is long enough for a checkpoint before the server stops.
    let hasLongJournal = Atomic<Bool>(false)
    /// Emptied batches, to be filled again. More than a few are on their way only while the disk is slow.
    let entryPool = BufferPool<JournalBatch>(atMost: 8)
    private let waitForSpace: @Sendable () -> Void

    /// - Parameter waitForSpace: Returns when ``JournalSpace/update(granted:isFull:)`` was called since it
    ///   last returned. Called with a request posted, by the thread that runs the databases.
    package init(
        _ requests: Mailbox<JournalRequest>, space: JournalSpace, origin: JournalOrigin,
        waitForSpace: @escaping @Sendable () -> Void
    ) {
        self.origin = origin
        self.requests = requests
        self.space = space
        self.waitForSpace = waitForSpace
    }

    /// Hands entries over, and leaves an empty batch.
    /// - Parameter ticket: The ticket of the last entry; larger than that of the call before.
    /// - Complexity: O(1); the entries are moved.
    package func post(_ entries: inout JournalBatch, upTo ticket: UInt64) {
        let empty = entryPool.acquire() ?? JournalBatch(withCapacityOf: entries)
        requests.post(.entries(exchange(&entries, with: empty), upTo: ticket))
    }

    /// Asks for a checkpoint. The snapshot must hold exactly the effects of the entries posted before.
    package func post(_ snapshot: Snapshot) {
        requests.post(.checkpoint(snapshot))
    }

    /// Has a snapshot given on when the entries posted before are on disk. It must hold exactly their
    /// effects.
    /// - Parameter body: Called on the journal thread.
    package func post(_ snapshot: Snapshot, whenDurable body: @escaping @Sendable (CheckpointJob) -> Void) {
        requests.post(.backup(snapshot, body))
    }

    /// Whether the disk is sure to take `byteCount` bytes of journal, counted from the start of the process.
    ///
    /// Waits for the journal thread only where more is on its way to the disk than was reserved in advance;
    /// the wait ends when the journal thread has caught up.
    package func hasSpace(for byteCount: Int) -> Bool {
        while space.grantedByteCount < byteCount {
            if space.isFull { return false }
            requests.post(.reserve(byteCount))
            waitForSpace()
        }
        return true
    }

    /// The same without waiting: false also where the space would have to be reserved first.
    package func hasReservedSpace(for byteCount: Int) -> Bool { space.grantedByteCount >= byteCount }

    /// Whether a checkpoint should be written before the server stops, so that the next start is short.
    package var wantsFinalCheckpoint: Bool { hasLongJournal.load(ordering: .relaxed) }
}
