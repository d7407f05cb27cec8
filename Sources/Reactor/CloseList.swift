/// The channels of a loop whose descriptors are closed, and whose delegates are still to be notified: at the
/// end of a tick, never from inside a call to the channel.
///
/// Confined to the loop. A class, because what is called back adds to the list.
final class CloseList {
    private let configuration: LoopConfiguration
    /// In the order in which they have closed.
    private var closed: [Pollable] = []
    /// Those whose turn has come, the first to close at the end.
    private var due: [Pollable] = []

    init(_ configuration: LoopConfiguration) {
        self.configuration = configuration
    }

    var isEmpty: Bool { closed.isEmpty && due.isEmpty }

    func append(_ channel: Pollable) { closed.append(channel) }

    /// Notifies until `tickShare` has passed: thousands may hang up at once. The rest comes first in the next
    /// tick.
    /// - Parameter isLast: There is no next tick: all are notified.
    func notify(isLast: Bool) {
        var pace = TickPace()
        while true {
            if due.isEmpty {
                guard !closed.isEmpty else { return }
                swap(&due, &closed)
                due.reverse()
            }
            while let channel = due.popLast() {
                channel.notifyClosed()
                // To free what a client held may take long: the clock is read after each channel.
                if pace.isOver(configuration, wasLong: true), !isLast { return }
            }
        }
    }
}
