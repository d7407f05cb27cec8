import COperatingSystem
import PandoTime
import Synchronization

/// Wakes one sleeping thread. Any thread signals; one thread waits, or one loop has it in its epoll set.
///
/// A signal costs a system call only when the other side sleeps, and then once, however many signals come
/// before it wakes:
///
///     awake ──signal──▶ signalled                              no system call
///     awake ──prepareToSleep──▶ sleeping ──signal──▶ signalled  one write to the eventfd
///     signalled ──clear──▶ awake
public final class WakeupEvent: Sendable {
    private enum State {
        static let awake: UInt8 = 0
        static let signalled: UInt8 = 1
        static let sleeping: UInt8 = 2
    }

    private let state = Atomic<UInt8>(State.awake)
    /// Signals that cost a system call; for tests and metrics.
    private let wakeups = Atomic<UInt64>(0)
    let descriptor: Int32

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init() throws(SocketError) {
        descriptor = try checked(pando_eventfd_create(), "create an eventfd")
    }

    deinit {
        _ = pando_close(descriptor)
    }

    /// How many signals had to wake a sleeping thread.
    package var wakeupCount: UInt64 { wakeups.load(ordering: .relaxed) }

    /// Any thread, at any time: also before a thread waits, and when none will wait again.
    public func signal() {
        if state.exchange(State.signalled, ordering: .acquiringAndReleasing) == State.sleeping {
            wakeups.add(1, ordering: .relaxed)
            // Fails only if the counter in the eventfd is full, at 2^64 - 2: then it is readable anyway.
            _ = pando_eventfd_signal(descriptor)
        }
    }

    /// The owning thread only: blocks until a signal has come since the last `wait`, and clears it. Then
    /// drain *every* mailbox that signals this event: they share it.
    /// - Parameter timeout: nil waits for ever; zero or less does not wait.
    /// - Returns: false if `timeout` passed first.
    @discardableResult
    public func wait(timeout: Duration? = nil) -> Bool {
        let deadline = timeout.map { MonotonicTime.now + $0 }
        while prepareToSleep() {
            var milliseconds: Int32 = -1
            if let deadline {
                let now = MonotonicTime.now
                guard now < deadline else { return clear() }
                milliseconds = (deadline - now).wholeMilliseconds
            }
            if pando_wait_readable(descriptor, milliseconds) > 0 { _ = pando_eventfd_clear(descriptor) }
            // Readable without a signal: the write belonged to a signal that was cleared before. Sleep again.
            if clear() { return true }
        }
        return clear()
    }

    /// - Returns: false when there is a signal: do not sleep.
    func prepareToSleep() -> Bool {
        state.compareExchange(
            expected: State.awake, desired: State.sleeping, ordering: .acquiringAndReleasing
        ).exchanged
    }

    /// Marks the owner awake. Look at what was signalled *after* this call: a signal from now on is a new
    /// one.
    /// - Returns: Whether there was a signal.
    @usableFromInline func clear() -> Bool {
        state.exchange(State.awake, ordering: .acquiringAndReleasing) == State.signalled
    }
}
