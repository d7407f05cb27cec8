import PandoReactor
import Synchronization

/// How many bytes of log the disk has promised to take: what the journal thread tells the database thread, so
/// that a write for which there is no room is refused before it is applied.
///
/// Counted from the start of the process: the database thread knows what it has handed over in all, the
/// journal thread what it has been granted in all.
final class LogSpace: Sendable {
    private let granted = Atomic<Int>(0)
    private let full = Atomic<Bool>(false)
    private let answered: WakeupEvent

    init() throws(SocketError) {
        answered = try WakeupEvent()
    }

    /// Bytes of log that may have been handed over in all.
    var grantedByteCount: Int { granted.load(ordering: .acquiring) }

    /// The disk had no room when it was last asked. What is granted holds all the same.
    var isFull: Bool { full.load(ordering: .acquiring) }

    /// The journal thread: what holds from now on.
    func set(granted byteCount: Int, isFull: Bool) {
        granted.store(byteCount, ordering: .releasing)
        full.store(isFull, ordering: .releasing)
        answered.signal()
    }

    /// Whoever is inside the ``DatabaseExecutor``, one at a time: waits for ``set(granted:isFull:)`` since the
    /// last wait.
    func waitForAnswer() {
        answered.wait()
    }
}
