import PandoReactor

/// Calls a function once: with the first answer, or after a timeout. Confined to a loop, but for
/// ``giveFromElsewhere(_:)``.
///
/// `@unchecked Sendable`: the function is used on the loop only.
final class FirstResult<Value: Sendable>: @unchecked Sendable {
    private let loop: EventLoop
    private var body: ((Value) -> Void)?
    private var timer: TimerToken?

    init(on loop: EventLoop, timeout: Duration, otherwise standard: Value, _ body: @escaping (Value) -> Void)
    {
        self.loop = loop
        self.body = body
        timer = loop.schedule(after: timeout) { [self] in
            timer = nil
            give(standard)
        }
    }

    /// On the loop.
    func give(_ value: Value) {
        if let timer = timer.take() { loop.cancel(timer) }
        body.take()?(value)
    }

    /// Any thread.
    func giveFromElsewhere(_ value: Value) {
        loop.submit { self.give(value) }
    }
}
