import PandoReactor

/// Runs `body`, and calls `expired` if that takes longer than `timeout`, so that it can be cut short.
///
/// Where the process has no thread or descriptor left, `body` has no deadline.
/// - Parameter expired: Called once at most, on a thread of its own, never after this function has returned.
func withDeadline(_ timeout: Duration, expired: @escaping @Sendable () -> Void, _ body: () -> Void) {
    let finished = try? WakeupEvent()
    let watch = finished.flatMap { finished in
        try? NamedThread.start("pando-deadline") { if !finished.wait(timeout: timeout) { expired() } }
    }
    body()
    finished?.signal()
    watch?.join()
}
