import PandoEngine
import PandoReactor

/// Closes the connections of one loop's clients one after the other over a time (`--drain-time`), before the
/// process ends, so that clients that connect again do so over the same time. Confined to the loop.
struct SessionDismissal {
    /// The least between two steps; in each, as many sessions end as the time demands.
    private static let dismissalStep: Duration = .milliseconds(50)

    let table: SessionTable
    let loop: EventLoop

    /// Ends all sessions and idle connections that there are now: WebSockets with close code 1001.
    /// - Parameter done: Called on the loop after the last.
    func begin(over time: Duration, _ done: @escaping () -> Void) {
        let ids = table.slots.compactMap { $0?.id }
        let stepCount = max(1, min(ids.count, Int(time / Self.dismissalStep)))
        dismiss(
            ids[...], atOnce: max(1, (ids.count + stepCount - 1) / stepCount), every: time / stepCount, done)
    }

    private func dismiss(
        _ ids: ArraySlice<SessionID>, atOnce count: Int, every step: Duration, _ done: @escaping () -> Void
    ) {
        for id in ids.prefix(count) { table[id]?.dismiss() }
        let rest = ids.dropFirst(count)
        guard !rest.isEmpty else { return done() }
        loop.schedule(after: step) { [self] in dismiss(rest, atOnce: count, every: step, done) }
    }
}
