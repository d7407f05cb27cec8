import PandoReactor
import PandoTime
import Synchronization

/// The first look of a thread at its directory, for which a start waits: shortly where the disk does not
/// answer, and longer where it has answered, since then the look ends and may refuse the start.
///
/// The thread of the directory notes what it has done. Another thread waits, once.
package final class FirstLook: Sendable {
    /// Why the waiting has ended, unless the look has refused the directory.
    package enum Outcome: Equatable, Sendable {
        /// Nothing speaks against using the directory.
        case complete
        /// The disk has answered, but the look was not complete in time.
        case incomplete
        /// The disk has not answered in time.
        case unanswered
    }

    private enum State {
        case pending
        case answered(at: MonotonicTime)
        /// With the reason not to use the directory; nil for none.
        case complete(StorageError?)
        /// The waiting has ended before the look was complete.
        case abandoned
    }

    private let state = Mutex(State.pending)
    private let changed: WakeupEvent

    /// - Throws: EMFILE, ENFILE or ENOMEM.
    init() throws(SocketError) { changed = try WakeupEvent() }

    /// The directory was opened, or cannot be: in any case its disk answers.
    func noteAnswer(at time: MonotonicTime = .now) {
        state.withLock { state in
            if case .pending = state { state = .answered(at: time) }
        }
        changed.signal()
    }

    /// Ends the look. Call it exactly once: a second call traps.
    /// - Parameter refusal: Why the server must not use the directory; nil where it may.
    /// - Returns: false where the waiting has ended before.
    @discardableResult
    func complete(_ refusal: StorageError?) -> Bool {
        let isWanted = state.withLock { state -> Bool in
            switch state {
            case .pending, .answered:
                state = .complete(refusal)
                return true
            case .abandoned: return false
            case .complete: preconditionFailure("a look was completed twice")
            }
        }
        changed.signal()
        return isWanted
    }

    /// Waits until the look is complete. One thread, once.
    /// - Parameters:
    ///   - deadline: How long for a disk that does not answer.
    ///   - lookTime: One that answers before `deadline` gets at least so much time after its answer.
    /// - Throws: Why the server must not use the directory.
    func wait(
        until deadline: MonotonicTime, afterAnswer lookTime: Duration
    ) throws(StorageError) -> Outcome {
        var end = deadline
        while changed.wait(timeout: end - .now) {
            guard case .answered(let time) = state.withLock({ $0 }) else { break }
            end = max(deadline, time + lookTime)
        }
        let found = state.withLock { state -> State in
            if case .complete = state { return state }
            defer { state = .abandoned }
            return state
        }
        switch found {
        case .complete(let refusal?): throw refusal
        case .complete(nil): return .complete
        case .answered: return .incomplete
        case .pending, .abandoned: return .unanswered
        }
    }
}
