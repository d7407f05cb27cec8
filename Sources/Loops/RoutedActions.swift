import PandoConnections

/// A session, for the actions of its own that wait in ``RoutedActions``.
protocol ActionPerformer: AnyObject {
    func perform(_ action: consuming ConnectionAction)
}

/// The actions of all sessions of a loop that lead to further events, in the order of the events that decided
/// them. Confined to the loop.
final class RoutedActions {
    /// nil where one was taken out.
    private var actions: [(session: any ActionPerformer, action: ConnectionAction)?] = []
    private var isRunning = false

    /// Capacity that is kept.
    private static let keptCount = 1024

    /// Appends an action for ``run()``.
    func append(_ action: consuming ConnectionAction, of session: any ActionPerformer) {
        actions.append((session, action))
    }

    /// Carries out the appended actions, and those that they lead to, until there are none. A call from
    /// inside does nothing: the outer call goes on with them. So no chain of events takes stack, however many
    /// requests a client has sent ahead, and each event's actions on its own socket and timers come before
    /// the next event.
    func run() {
        guard !isRunning, !actions.isEmpty else { return }
        isRunning = true
        var next = 0
        while next < actions.count {
            if let (session, action) = exchange(&actions[next], with: nil) { session.perform(action) }
            next += 1
        }
        actions.removeAll(keepingCapacity: actions.capacity <= Self.keptCount)
        isRunning = false
    }
}
