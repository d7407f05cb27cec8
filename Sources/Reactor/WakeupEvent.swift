import CSystem
import Synchronization

/// Wakes one sleeping thread. Any thread rings; one thread waits, or one loop has it in its epoll set.
///
/// Ringing costs a system call only when the other side sleeps, and then once, however often it is rung
/// before it wakes:
///
///     awake ──ring──▶ rung            (no system call)
///     awake ──about to sleep──▶ sleeping ──ring──▶ rung   (one write to the eventfd)
///     rung ──takeRing──▶ awake
package final class WakeupEvent: Sendable {
    private enum State {
        static let awake: UInt8 = 0
        static let rung: UInt8 = 1
        static let sleeping: UInt8 = 2
    }

    private let state = Atomic<UInt8>(State.awake)
    /// Each ring that cost a system call; for tests and metrics.
    private let wakeUps = Atomic<UInt64>(0)
    let descriptor: Int32

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init() throws(SocketError) {
        descriptor = try checked(pando_eventfd_create(), "create an eventfd")
    }

    deinit {
        _ = pando_close(descriptor)
    }

    /// How many rings had to wake somebody.
    package var wakeUpCount: UInt64 { wakeUps.load(ordering: .relaxed) }

    /// Any thread, at any time: before anyone waits, and after nobody will.
    package func ring() {
        if state.exchange(State.rung, ordering: .acquiringAndReleasing) == State.sleeping {
            wakeUps.add(1, ordering: .relaxed)
            // Fails only if 2^64 - 2 rings were never read; the sleeper then has reason enough to wake.
            _ = pando_eventfd_ring(descriptor)
        }
    }

    /// The owning thread only: blocks until rung since the last `wait`, then forgets the ring. Then drain
    /// *every* mailbox of this bell: they share it.
    /// - Returns: false if `timeout` passed first. nil waits for ever.
    @discardableResult
    package func wait(timeout: Duration? = nil) -> Bool {
        let deadline = timeout.map { MonotonicTime.now + $0 }
        while prepareToSleep() {
            var milliseconds: Int32 = -1
            if let deadline {
                let now = MonotonicTime.now
                guard now < deadline else { return takeRing() }
                milliseconds = (deadline - now).wholeMilliseconds
            }
            if pando_wait_readable(descriptor, milliseconds) > 0 { _ = pando_eventfd_silence(descriptor) }
            // Readable without a ring: the write of a ring that `prepareToSleep` had already seen. Sleep
            // again.
            if takeRing() { return true }
        }
        return takeRing()
    }

    /// - Returns: false when a ring is waiting: do not sleep.
    func prepareToSleep() -> Bool {
        state.compareExchange(
            expected: State.awake, desired: State.sleeping, ordering: .acquiringAndReleasing
        ).exchanged
    }

    /// Marks the owner awake. Look at what the ring was for *after* this: a ring from now on is a new one.
    func takeRing() -> Bool {
        state.exchange(State.awake, ordering: .acquiringAndReleasing) == State.rung
    }
}
