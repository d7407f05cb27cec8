import Dispatch
import Synchronization

/// Blocks this thread until an asynchronous function has returned: commands are synchronous.
func waitFor<Value: Sendable>(_ work: @escaping @Sendable () async -> Value) -> Value {
    let outcome = Outcome<Value>()
    Task.detached {
        let value = await work()
        outcome.value.withLock { $0 = value }
        outcome.isThere.signal()
    }
    outcome.isThere.wait()
    guard let value = outcome.value.withLock({ $0 }) else { preconditionFailure("signalled without a value") }
    return value
}

private final class Outcome<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
    let isThere = DispatchSemaphore(value: 0)
}
