/// The channels of a loop whose descriptors are closed, and whose delegates are still to be told: at the end
/// of a tick, never from inside a call to the channel.
///
/// Confined to the loop. A class, because what is called back adds to the list.
final class CloseList {
    private var closed: [Pollable] = []

    var isEmpty: Bool { closed.isEmpty }

    func append(_ channel: Pollable) { closed.append(channel) }

    /// Notifies all, in the order in which they have closed.
    func notify() {
        while !closed.isEmpty {
            for channel in exchange(&closed, with: []) { channel.notifyClosed() }
        }
    }
}
