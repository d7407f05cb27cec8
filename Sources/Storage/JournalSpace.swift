import PandoReactor
import Synchronization

/// How many bytes of journal the disk is sure to take. The journal thread publishes it; the database thread
/// reads it, and refuses a write that has no space before the write is applied.
///
/// Bytes are counted from the start of the process: the database thread knows how many it has handed over in
/// all, and compares them with how many were granted in all.
package final class JournalSpace: Sendable {
    private let granted = Atomic<Int>(0)
    private let full = Atomic<Bool>(false)
    private let updated: WakeupEvent

    /// - Throws: ``SocketError`` where the process has no free descriptor.
    package init() throws(SocketError) {
        updated = try WakeupEvent()
    }

    /// Bytes of journal that may be handed over in all.
    package var grantedByteCount: Int { granted.load(ordering: .acquiring) }

    /// Whether the disk had no space when it was last asked. What is granted stays granted.
    package var isFull: Bool { full.load(ordering: .acquiring) }

    /// The journal thread: publishes what holds from now on, and wakes ``waitForUpdate()``.
    package func update(granted byteCount: Int, isFull: Bool) {
        granted.store(byteCount, ordering: .releasing)
        full.store(isFull, ordering: .releasing)
        updated.signal()
    }

    /// Waits for an ``update(granted:isFull:)`` since the last wait. One thread at a time.
    package func waitForUpdate() {
        updated.wait()
    }
}
