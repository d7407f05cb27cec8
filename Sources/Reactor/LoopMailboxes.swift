import PandoTime

/// The mailboxes of a loop, and which of them have messages that wait for the next tick.
///
/// Confined to the loop. A class, because handlers attach mailboxes, and deliver what is in others.
final class LoopMailboxes {
    private let configuration: LoopConfiguration
    private var slots: [MailboxSlot] = []
    /// A mailbox has messages that are for the next tick.
    private(set) var hasWaitingMessages = false

    init(_ configuration: LoopConfiguration) {
        self.configuration = configuration
    }

    func attach(_ slot: MailboxSlot) -> MailboxAttachment {
        slots.append(slot)
        return MailboxAttachment(index: slots.count - 1)
    }

    /// Drops what was not delivered.
    func close() {
        for slot in slots { slot.close() }
        slots.removeAll()
    }

    /// Gives the handlers what has arrived: a slice of each mailbox at a time, until `tickShare` has passed.
    /// - Parameters:
    ///   - toAll: Otherwise only messages that have waited since the last tick.
    ///   - isLast: There is no next tick: no message may wait for it.
    func deliver(toAll: Bool, isLast: Bool) {
        hasWaitingMessages = false
        var hasMore = false
        // By index: a handler may attach another mailbox.
        var index = 0
        while index < slots.count {
            if toAll || isLast || slots[index].rest != .nothing, deliver(index, all: isLast) {
                hasMore = true
            }
            index += 1
        }
        guard hasMore else { return }
        let began = configuration.clock()
        while hasMore, configuration.clock() - began <= configuration.tickShare {
            hasMore = false
            for index in slots.indices where slots[index].rest == .inBatch {
                if deliver(index, all: false) { hasMore = true }
            }
        }
    }

    /// Gives the handler of a mailbox a slice of what has arrived.
    func deliver(_ mailbox: MailboxAttachment) { _ = deliver(mailbox.index, all: false) }

    /// - Parameter all: Otherwise a slice.
    /// - Returns: Whether there are more that were there already.
    private func deliver(_ index: Int, all: Bool) -> Bool {
        let rest = slots[index].deliver(all)
        slots[index].rest = rest
        if rest != .nothing { hasWaitingMessages = true }
        return rest == .inBatch
    }
}
