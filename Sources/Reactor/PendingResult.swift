import PandoTime
import Synchronization

/// A value that one thread delivers once, and for which another thread waits for a limited time.
package final class PendingResult<Value: Sendable>: Sendable {
    private enum State {
        case pending
        case delivered(Value)
        /// The waiting has ended without it.
        case abandoned
    }

    private let state = Mutex<State>(.pending)
    private let delivered: WakeupEvent

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init() throws(SocketError) {
        delivered = try WakeupEvent()
    }

    /// Delivers the value. Call it exactly once: a second call traps.
    /// - Returns: false where the waiting has ended without it.
    @discardableResult
    package func deliver(_ value: Value) -> Bool {
        let isWanted = state.withLock { state -> Bool in
            switch state {
            case .pending:
                state = .delivered(value)
                return true
            case .abandoned: return false
            case .delivered: preconditionFailure("a result was delivered twice")
            }
        }
        delivered.signal()
        return isWanted
    }

    /// Waits for the value. One thread, once.
    /// - Returns: nil where it was not delivered in time; then ``deliver(_:)`` returns false.
    package func wait(until deadline: MonotonicTime) -> Value? {
        delivered.wait(timeout: deadline - .now)
        return state.withLock { state -> Value? in
            if case .delivered(let value) = state { return value }
            state = .abandoned
            return nil
        }
    }
}
