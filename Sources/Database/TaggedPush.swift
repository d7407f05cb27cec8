import PandoBytes
import PandoEngine
import Synchronization

/// A push to listens with very many different tags, each of which gets a message of its own. The loops make
/// the messages, some in each step, when they deliver them: to make all of them at once would keep all
/// databases waiting, and would take memory for as many copies of the data.
///
///     head                          tail, for each recipient
///     {"t":"d","d":{… "d":{…}       ,"t":7}}}
///
/// Where the data is large, each tag has a ``LargeMessage``, which is made for its first recipient.
package final class TaggedPush: Sendable {
    /// Of all loops.
    package let recipients: [Push.TaggedRecipient]
    /// The message up to the tag; empty where the data is large.
    private let head: [UInt8]
    private let body: Push.Body
    /// Those that were made, by tag.
    private let largeMessages = Mutex<[Int64: LargeMessage]>([:])

    /// - Parameters:
    ///   - head: The message of `body` up to the tag (`append(pushHead:)`); empty where workers encode it.
    ///   - recipients: At least one.
    init(_ body: Push.Body, head: [UInt8], to recipients: [Push.TaggedRecipient]) {
        assert(!recipients.isEmpty)
        self.body = body
        self.head = head
        self.recipients = recipients
    }

    /// Whether workers encode the messages (``largeMessage(for:)``); else ``TaggedPushWriter`` prints them.
    package var isLarge: Bool { head.isEmpty }

    /// Bytes that it holds in memory until it is delivered.
    var byteCount: Int { head.count }

    /// The message for all recipients with a tag. O(1).
    package func largeMessage(for tag: Int64) -> LargeMessage {
        largeMessages.withLock { made in
            if let known = made[tag] { return known }
            let message = LargeMessage(.push(body, tag: tag))
            made[tag] = message
            return message
        }
    }

    /// Prints its messages one after the other. Confined to one thread.
    package func makeWriter() -> TaggedPushWriter { TaggedPushWriter(head: head) }
}

/// Prints the messages of a ``TaggedPush`` that is not large.
package struct TaggedPushWriter {
    private var message: [UInt8]
    private let headByteCount: Int
    /// The message that was printed last, as whole frames.
    package private(set) var frames: [UInt8] = []

    fileprivate init(head: [UInt8]) {
        message = head
        headByteCount = head.count
        frames.reserveCapacity(head.count + 64)
    }

    /// Prints the message for a tag. O(bytes).
    /// - Returns: false where it would be too long for the protocol. None is expected to be.
    package mutating func print(for tag: Int64) -> Bool {
        message.removeSubrange(headByteCount...)
        message.append(pushTail: tag)
        // Moved out of `self` while the message is borrowed.
        var frames = exchange(&self.frames, with: [])
        defer { self.frames = frames }
        frames.removeAll(keepingCapacity: true)
        return frames.append(framesOf: message.rawSpan)
    }
}
