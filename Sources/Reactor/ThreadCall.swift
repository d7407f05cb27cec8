import PandoTime
import Synchronization

/// A function on a thread of its own, for whose result the caller waits for a limited time only: one that may
/// take for ever, such as a system call on a disk that does not answer.
package struct ThreadCall<Value: Sendable>: Sendable {
    private final class Box: Sendable {
        let value = Mutex<Value?>(nil)
    }

    private let box: Box
    private let thread: NamedThread

    /// Begins the call.
    /// - Parameter name: Of the thread, for the debugger and `top -H`; cut to 15 bytes.
    /// - Throws: EAGAIN at the system's limit of threads.
    package init(_ name: String, _ body: @escaping @Sendable () -> Value) throws(SocketError) {
        let box = Box()
        self.box = box
        thread = try NamedThread.start(name) {
            let value = body()
            box.value.withLock { $0 = value }
        }
    }

    /// Waits for the result. Must be called exactly once.
    /// - Returns: nil where it is not there in time; then the thread is left to itself.
    package func value(until deadline: MonotonicTime) -> Value? {
        guard thread.join(until: deadline) else { return nil }
        return box.value.withLock { $0 }
    }
}
