import Synchronization

/// A queue of messages from any thread to one thread, its owner.
///
/// On a loop: `loop.mailbox(of:)` or `loop.attach(_:)`. On a thread of its own: ``WorkerThread``, or
/// `wakeup.wait()`, then `drain(into:)`.
///
/// Public and inlinable, as everything here that depends on the message's type: other modules then compile it
/// for their type (a `package` body is not given to them). A loop drains all its mailboxes in every tick, and
/// generic code would look up the type's metadata for each: 1500 instructions a mailbox.
public final class Mailbox<Message: Sendable>: Sendable {
    @usableFromInline struct Queue {
        @usableFromInline var messages: [Message] = []
        @usableFromInline var isClosed = false

        @inlinable init() {}
    }

    @usableFromInline let queue: Mutex<Queue>
    @usableFromInline let wakeup: WakeupEvent

    /// - Parameter wakeup: What wakes the owner; several mailboxes may share it.
    @inlinable public init(signalling wakeup: WakeupEvent) {
        queue = Mutex(Queue())
        self.wakeup = wakeup
    }

    /// Any thread: puts a message behind the others. Signals only when the mailbox was empty, so a burst of
    /// posts wakes the owner once. One lock, and a system call only when the owner sleeps.
    /// - Parameter signals: false from the owner's own thread, which drains the mailbox next.
    /// - Returns: false if the mailbox is closed; the message is dropped.
    @discardableResult
    @inlinable public func post(_ message: consuming Message, signals: Bool = true) -> Bool {
        // Moved in: the owner may then hold the only reference as soon as it drains the mailbox.
        var moved = Optional(consume message)
        let (accepted, wasEmpty) = queue.withLock { queue in
            guard !queue.isClosed, let message = moved.take() else { return (false, false) }
            let wasEmpty = queue.messages.isEmpty
            queue.messages.append(message)
            return (true, wasEmpty)
        }
        if wasEmpty, signals { wakeup.signal() }
        return accepted
    }

    /// Any thread: all of them in order, with no other message between, under one lock.
    /// - Returns: false if the mailbox is closed; the messages are dropped.
    @discardableResult
    @inlinable public func post(contentsOf messages: [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wasEmpty) = queue.withLock { queue in
            guard !queue.isClosed else { return (false, false) }
            let wasEmpty = queue.messages.isEmpty
            queue.messages.append(contentsOf: messages)
            return (true, wasEmpty)
        }
        if wasEmpty { wakeup.signal() }
        return accepted
    }

    /// Any thread: as ``post(contentsOf:)``, and leaves `messages` empty. Where the mailbox is empty the two
    /// arrays trade places, and no message is copied.
    /// - Returns: false if the mailbox is closed; the messages are dropped.
    @discardableResult
    @inlinable public func post(movingFrom messages: inout [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wasEmpty) = append(movingFrom: &messages)
        if wasEmpty { wakeup.signal() }
        return accepted
    }

    /// Any thread: as ``post(movingFrom:)``, without a signal.
    /// - Returns: Whether the mailbox was empty. If so, the caller must drain it or signal the owner; if not,
    ///   the thread whose message is the first does so already.
    @inlinable public func postWithoutSignal(movingFrom messages: inout [Message]) -> Bool {
        append(movingFrom: &messages).wasEmpty
    }

    @inlinable func append(movingFrom messages: inout [Message]) -> (accepted: Bool, wasEmpty: Bool) {
        let result = queue.withLock { queue in
            guard !queue.isClosed else { return (false, false) }
            let wasEmpty = queue.messages.isEmpty
            if wasEmpty {
                swap(&queue.messages, &messages)
            } else {
                queue.messages.append(contentsOf: messages)
            }
            return (true, wasEmpty)
        }
        messages.removeAll(keepingCapacity: true)
        return result
    }

    /// Any thread: whether the mailbox is empty at the moment.
    @inlinable public var isEmpty: Bool { queue.withLock { $0.messages.isEmpty } }

    /// Owner only: moves all messages, oldest first, into `batch`.
    /// - Parameter batch: Must be empty. It trades places with the queue's array, so no lock is held while
    ///   the messages are handled and the two arrays are never reallocated: empty it with
    ///   `removeAll(keepingCapacity: true)`.
    @inlinable public func drain(into batch: inout [Message]) {
        precondition(batch.isEmpty, "the previous batch was not finished")
        queue.withLock { queue in swap(&queue.messages, &batch) }
    }

    /// Any thread: drops what was not drained; later posts give false.
    @inlinable public func close() {
        // Released outside the lock: a message's deinit may run any code.
        let dropped = queue.withLock { queue in
            queue.isClosed = true
            return exchange(&queue.messages, with: [])
        }
        _ = dropped
    }
}

/// Names a mailbox of a loop, and with it its handler.
public struct MailboxAttachment: Sendable {
    let index: Int
}

/// A mailbox with its handler, without the message's type: what a loop keeps a list of.
@usableFromInline struct MailboxSlot {
    /// What is left for the next delivery.
    @usableFromInline enum Rest {
        case nothing
        /// Messages that were moved out of the mailbox.
        case inBatch
        /// Perhaps messages in the mailbox, whose signal was seen.
        case inMailbox
    }

    /// Gives the handler a slice of what has arrived, or all of it.
    let deliver: (_ all: Bool) -> Rest
    let close: () -> Void
    var rest = Rest.nothing

    /// - Parameters:
    ///   - sliceCount: Most messages that the handler is given at once; it is given all where it must.
    ///   - handler: Gets each batch, and may leave anything in it. Returns whether it has kept a part of it:
    ///     then it is called with an empty batch, until it has handled that.
    @inlinable init<Message: Sendable>(
        _ mailbox: Mailbox<Message>, sliceCount: Int, handler: @escaping (inout [Message]) -> Bool
    ) {
        var batch = MessageBatch<Message>()
        var hasKept = false
        self.init(
            deliver: { all in
                func handleKept() {
                    var nothing: [Message] = []
                    repeat { hasKept = handler(&nothing) } while hasKept && all
                }
                func handleSlice() {
                    var messages = batch.remove(all ? .max : sliceCount)
                    hasKept = handler(&messages)
                    batch.recycle(messages)
                    if hasKept, all { handleKept() }
                }
                if hasKept || !batch.isEmpty {
                    if hasKept { handleKept() } else { handleSlice() }
                    guard all else { return hasKept || !batch.isEmpty ? .inBatch : .inMailbox }
                    if !batch.isEmpty { handleSlice() }
                }
                batch.fill(from: mailbox)
                guard !batch.isEmpty else { return .nothing }
                handleSlice()
                return hasKept || !batch.isEmpty ? .inBatch : .nothing
            }, close: { mailbox.close() })
    }

    @usableFromInline init(deliver: @escaping (Bool) -> Rest, close: @escaping () -> Void) {
        self.deliver = deliver
        self.close = close
    }
}

/// What was moved out of a mailbox and not handled yet.
@usableFromInline struct MessageBatch<Message: Sendable> {
    /// Oldest first, as long as nothing was removed; otherwise reversed: what is handled first is at the end,
    /// where it is moved out without a copy.
    @usableFromInline var messages: [Message] = []
    @usableFromInline var isReversed = false
    /// Empty; its memory is used for the next slice.
    @usableFromInline var spare: [Message] = []

    @inlinable init() {}

    @inlinable var isEmpty: Bool { messages.isEmpty }

    /// - Precondition: The batch is empty.
    @inlinable mutating func fill(from mailbox: Mailbox<Message>) {
        isReversed = false
        if messages.capacity > keptBatchCapacity { messages = [] }
        mailbox.drain(into: &messages)
    }

    /// Moves the oldest messages out, at most `count`: then a handler that gets back here does not find a
    /// batch that is half handled. O(1) where that are all of a new batch, as nearly always.
    @inlinable mutating func remove(_ count: Int) -> [Message] {
        if !isReversed {
            guard messages.count > count else { return exchange(&messages, with: []) }
            messages.reverse()
            isReversed = true
        }
        var slice = exchange(&spare, with: [])
        while slice.count < count, let message = messages.popLast() { slice.append(message) }
        return slice
    }

    /// Releases the memory of messages that were handled.
    @inlinable mutating func recycle(_ handled: consuming [Message]) {
        handled.removeAll(keepingCapacity: handled.capacity <= keptBatchCapacity)
        if isReversed { spare = handled } else if messages.isEmpty { messages = handled }
    }
}

/// Messages. A batch array of more capacity is freed when it was handled.
@usableFromInline let keptBatchCapacity = 4096
