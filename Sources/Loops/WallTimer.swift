import PandoReactor
import PandoStorage

/// One moment that is waited for. Confined to its loop.
final class WallTimer {
    /// The longest that a clock set forward goes unnoticed.
    private static let longestStep: Duration = .seconds(30)

    private let moment: Int64
    private var body: (() -> Void)?
    private var token: TimerToken?

    /// Calls `body` when the wall clock has reached a moment.
    ///
    /// The wait is a monotonic one, in steps, with a look at the wall clock after each: a clock that is set
    /// back ends nothing early, and one that is set forward is noticed.
    /// - Parameter moment: Seconds since 1970.
    init(at moment: Int64, on loop: EventLoop, _ body: @escaping () -> Void) {
        self.moment = moment
        self.body = body
        wait(on: loop)
    }

    private func wait(on loop: EventLoop) {
        let left = Duration.milliseconds(max(0, moment * 1000 - wallTime()))
        token = loop.schedule(after: min(left, Self.longestStep)) { [weak self, weak loop] in
            guard let self, let loop, body != nil else { return }
            token = nil
            guard wallTime() >= moment * 1000 else { return wait(on: loop) }
            let body = body.take()
            body?()
        }
    }

    func cancel(on loop: EventLoop) {
        body = nil
        if let token = token.take() { loop.cancel(token) }
    }
}
