import Synchronization

/// The one door into a thread from other threads.
///
/// On a loop: `loop.mailbox(of:)` or `loop.attach(_:)`. On a thread of its own: `bell.wait()`, then
/// `drain(into:)`.
package final class Mailbox<Message: Sendable>: Sendable {
    private struct Box {
        var messages: [Message] = []
        var isClosed = false
    }

    private let box = Mutex(Box())
    private let bell: WakeupEvent

    /// - Parameter bell: What wakes the owner; several mailboxes may share it.
    package init(ringing bell: WakeupEvent) {
        self.bell = bell
    }

    /// Any thread. Rings only when the box was empty, so a burst of posts wakes the owner once.
    /// - Returns: false if the box is closed; the message is dropped.
    /// - Parameter rings: false from the owner's own thread, which looks into the box next.
    @discardableResult
    package func post(_ message: consuming Message, rings: Bool = true) -> Bool {
        // Moved in: whoever drains the box may be alone with it at once.
        var moved = Optional(consume message)
        let (accepted, wasEmpty) = box.withLock { box in
            guard !box.isClosed, let message = moved.take() else { return (false, false) }
            let wasEmpty = box.messages.isEmpty
            box.messages.append(message)
            return (true, wasEmpty)
        }
        if wasEmpty, rings { bell.ring() }
        return accepted
    }

    /// Any thread. All of them in order, with none of others between, under one lock.
    @discardableResult
    package func post(contentsOf messages: [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wasEmpty) = box.withLock { box in
            guard !box.isClosed else { return (false, false) }
            let wasEmpty = box.messages.isEmpty
            box.messages.append(contentsOf: messages)
            return (true, wasEmpty)
        }
        if wasEmpty { bell.ring() }
        return accepted
    }

    /// Any thread. As ``post(contentsOf:)``, and leaves `messages` empty: where nothing waits in the box the
    /// two arrays trade places, and no message is copied.
    @discardableResult
    package func post(movingFrom messages: inout [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wasEmpty) = append(movingFrom: &messages)
        if wasEmpty { bell.ring() }
        return accepted
    }

    /// Any thread. As ``post(movingFrom:)``, and nobody is rung for: where this gives true, the caller sees
    /// to it that somebody looks. Where it gives false, somebody else already does.
    /// - Returns: Whether the box was empty.
    package func postWithoutRing(movingFrom messages: inout [Message]) -> Bool {
        append(movingFrom: &messages).wasEmpty
    }

    private func append(movingFrom messages: inout [Message]) -> (accepted: Bool, wasEmpty: Bool) {
        let result = box.withLock { box in
            guard !box.isClosed else { return (false, false) }
            let wasEmpty = box.messages.isEmpty
            if wasEmpty { swap(&box.messages, &messages) } else { box.messages.append(contentsOf: messages) }
            return (true, wasEmpty)
        }
        messages.removeAll(keepingCapacity: true)
        return result
    }

    /// Any thread: whether there is nothing at the moment.
    package var isEmpty: Bool { box.withLock { $0.messages.isEmpty } }

    /// Owner only. `batch` must be empty; it trades places with the box, so no lock is held while the work
    /// runs and the two buffers are used for ever. Empty it with `removeAll(keepingCapacity: true)`.
    package func drain(into batch: inout [Message]) {
        precondition(batch.isEmpty, "the previous batch was not finished")
        box.withLock { box in swap(&box.messages, &batch) }
    }

    /// Any thread. Drops what nobody drained; later posts answer false.
    package func close() {
        // Released outside the lock: a message's deinit may run any code.
        let dropped = box.withLock { box in
            box.isClosed = true
            defer { box.messages = [] }
            return box.messages
        }
        _ = dropped
    }
}

/// A mailbox with its handler, without the message's type: what a loop keeps a list of.
class MailboxSlot {
    func deliver() {}
    func close() {}
}

final class HandledMailbox<Message: Sendable>: MailboxSlot {
    private let mailbox: Mailbox<Message>
    private let handler: (inout [Message]) -> Void
    private var batch: [Message] = []

    /// A burst leaves behind no more spare room than this.
    private static var keptCapacity: Int { 4096 }

    init(_ mailbox: Mailbox<Message>, handler: @escaping (inout [Message]) -> Void) {
        self.mailbox = mailbox
        self.handler = handler
    }

    override func deliver() {
        mailbox.drain(into: &batch)
        guard !batch.isEmpty else { return }
        // Taken out, so that a handler which reaches this loop again never meets a half-used batch.
        var taken: [Message] = []
        swap(&taken, &batch)
        handler(&taken)
        taken.removeAll(keepingCapacity: taken.capacity <= Self.keptCapacity)
        swap(&taken, &batch)
    }

    override func close() {
        mailbox.close()
    }
}
