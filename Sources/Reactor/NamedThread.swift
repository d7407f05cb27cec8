import COperatingSystem
import PandoTime

/// A thread with a name and a stack of a given size, which must be joined exactly once. Threads that handle
/// messages are a ``WorkerThread``.
package struct NamedThread: Sendable {
    private let handle: UInt64

    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts `body` on a new thread.
    /// - Parameters:
    ///   - name: For the debugger and `top -H`; cut to 15 bytes.
    ///   - stackByteCount: Bytes of virtual memory; only pages that are used cost memory. At least 16 KiB.
    /// - Throws: EAGAIN at the system's limit of threads, EINVAL for a stack too small.
    package static func start(
        _ name: String, stackByteCount: Int = 1 << 20, _ body: @escaping @Sendable () -> Void
    ) throws(SocketError) -> NamedThread {
        let run: @Sendable () -> Void = {
            let heap = Heaps.addOfThisThread()
            body()
            if let heap { Heaps.remove(heap) }
        }
        let context = unsafe Unmanaged.passRetained(Body(run))
        var handle: UInt64 = 0
        let result = unsafe pando_thread_start(
            name, stackByteCount,
            { context in
                guard let context = unsafe context else { return }
                // Balances the retain above: the thread runs once.
                unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
            },
            context.toOpaque(), &handle)
        if result < 0 { unsafe context.release() }
        try checked(result, "start the thread \(name)")
        return NamedThread(handle: handle)
    }

    /// Waits for the body to return. Must be called exactly once, and not by the thread itself.
    package func join() {
        let result = pando_thread_join(handle)
        precondition(result == 0, "a thread was joined twice, or by itself: \(errorText(-result))")
    }

    /// Waits for the body to return, in place of ``join()``, but until `deadline` at most. Then the thread is
    /// left to itself: such as one in a system call on a disk that does not answer.
    /// - Returns: Whether the body has returned.
    package func join(until deadline: MonotonicTime) -> Bool {
        let result = pando_thread_join_until(handle, deadline.nanoseconds)
        precondition(result >= 0, "a thread was joined twice, or by itself: \(errorText(-result))")
        return result == 1
    }
}
