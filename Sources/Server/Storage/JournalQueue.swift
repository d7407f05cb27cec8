import PandoJournal
import PandoReactor
import Synchronization

/// What the journal's writer is told.
enum JournalOrder: Sendable {
    /// - Parameter upTo: The database host's own number of the last; grows by one an entry.
    case entries(LogBatch, upTo: UInt64)
    /// Everything that was true after the entries before it.
    case checkpoint(Snapshot)
    case checkpointFinished(isWritten: Bool)
    /// A file for the next segment is there, of so many bytes; nil when nothing came of it.
    case segmentPrepared(byteCount: Int?)
    /// Room for so many bytes in all.
    case reserve(Int)
    case stop
}

/// The side of the journal that whoever is inside the ``DatabaseExecutor`` uses: whoever writes behind it, a
/// thread (``JournalThread``) or a simulation (``SteppedServer``).
final class JournalQueue: Sendable {
    let orders: Mailbox<JournalOrder>
    let space: LogSpace
    /// Enough log for a checkpoint before the server stops.
    let hasMuchLog = Flag()
    /// Where the log stood before the first order.
    let origin: JournalOrigin
    private let waitForRoom: @Sendable () -> Void
    /// Batches whose entries the journal has taken over. More than a few wait only where the disk holds
    /// everybody back.
    let spareEntries = BufferPool<LogBatch>(atMost: 8)

    /// - Parameter waitForRoom: Returns when ``LogSpace/set(granted:isFull:)`` was called since it last did.
    ///   Called by whoever is inside the ``DatabaseExecutor``, with an order posted.
    init(
        _ orders: Mailbox<JournalOrder>, space: LogSpace, origin: JournalOrigin,
        waitForRoom: @escaping @Sendable () -> Void
    ) {
        self.origin = origin
        self.orders = orders
        self.space = space
        self.waitForRoom = waitForRoom
    }

    /// Any thread; tickets ascend. Leaves a batch that is empty.
    func post(_ entries: inout LogBatch, upTo ticket: UInt64) {
        var taken = spareEntries.acquire() ?? LogBatch(withCapacityOf: entries)
        swap(&taken, &entries)
        orders.post(.entries(consume taken, upTo: ticket))
    }

    /// Behind the entries that the snapshot holds.
    func post(_ snapshot: Snapshot) {
        orders.post(.checkpoint(snapshot))
    }

    /// Whether the disk is sure to take `byteCount` bytes of log, counted from the start. Waits only when
    /// more is on its way to the disk than room was taken for in advance; then waiting is what must be done
    /// anyway.
    func hasRoom(for byteCount: Int) -> Bool {
        while space.grantedByteCount < byteCount {
            if space.isFull { return false }
            orders.post(.reserve(byteCount))
            waitForRoom()
        }
        return true
    }

    /// The same without waiting: whether the room is known to be there.
    func hasRoomAhead(for byteCount: Int) -> Bool { space.grantedByteCount >= byteCount }

    /// Whether a checkpoint is worth while before the server stops.
    var wantsLastCheckpoint: Bool { hasMuchLog.isSet.load(ordering: .relaxed) }

    final class Flag: Sendable {
        let isSet = Atomic<Bool>(false)
    }
}
