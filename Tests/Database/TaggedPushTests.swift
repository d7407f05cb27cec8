import PandoBytes
import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoEngine
@testable import PandoReactor

/// Pushes to listens with more different tags than are encoded at once.
@Suite struct TaggedPushTests {
    private static func push(
        _ node: Node, tags: some Sequence<Int64>, untagged: ContiguousArray<SessionID> = []
    ) -> Push {
        var push = Push(body: .overwrite("q/k", node))
        push.recipients = untagged.isEmpty ? [] : [untagged]
        push.taggedRecipients = tags.enumerated().map {
            Push.TaggedRecipient(session: Bench.session(UInt32($0.offset + 1)), tag: $0.element)
        }
        return push
    }

    private static func encode(_ push: Push, queues: Int = 1) -> [OutputBatch] {
        var encoder = OutputEncoder(queueCount: queues)
        encoder.encode([push])
        return encoder.takeBatches(refillingFrom: BufferPool(atMost: 0))
    }

    /// The messages that a batch has for a session, unframed, in their order.
    private static func messages(_ batch: OutputBatch, for session: SessionID) -> [String] {
        batch.items.flatMap { item -> [String] in
            switch item {
            case .frames(session, let range): return texts(Array(batch.arena[range]))
            case .shared(let bytes, let sessions) where sessions.contains(session):
                return texts(bytes.array)
            case .tagged(let push):
                var writer = push.makeWriter()
                return push.recipients.filter { $0.session == session }.flatMap { recipient -> [String] in
                    if push.isLarge { return ["large \(recipient.tag)"] }
                    return writer.print(for: recipient.tag) ? texts(writer.frames) : ["too long"]
                }
            default: return []
            }
        }
    }

    private static func texts(_ frames: [UInt8]) -> [String] {
        OutputBatch.messages(in: frames[...]).map { String(decoding: $0, as: UTF8.self) }
    }

    /// However many tags there are, each recipient gets the same message; only who makes it differs.
    @Test(arguments: [1, 64, 1024, 1025]) func everyRecipientGetsTheMessageForItsTag(tagCount: Int) throws {
        let untagged = Bench.session(9999)
        let tags = (0..<2200).map { Int64($0 % tagCount) * 7 }
        let batches = Self.encode(Self.push(.string("text"), tags: tags, untagged: [untagged]), queues: 2)
        // A single recipient has its message in the batch of its own loop.
        #expect(
            batches.flatMap { Self.messages($0, for: untagged) } == [
                #"{"t":"d","d":{"a":"d","b":{"p":"q/k","d":"text"}}}"#
            ])
        for batch in batches {
            for (index, tag) in tags.enumerated() where index % 37 == 0 {
                let expected = #"{"t":"d","d":{"a":"d","b":{"p":"q/k","d":"text","t":\#(tag)}}}"#
                #expect(Self.messages(batch, for: Bench.session(UInt32(index + 1))) == [expected])
            }
            let taggedCount = batch.items.count { if case .tagged = $0 { true } else { false } }
            #expect(taggedCount == (tagCount > 1024 ? 1 : 0))
        }
    }

    /// One write to a window that very many listens share under tags of their own: what it holds and what it
    /// makes at once does not grow with their number.
    @Test func bytesDoNotGrowWithTheNumberOfTags() throws {
        let text = String(repeating: "x", count: 30_000)
        let node = Node.string(Text(text))
        let few = Self.encode(Self.push(node, tags: (0..<100).map { Int64($0) }))[0]
        let many = Self.encode(Self.push(node, tags: (0..<10_000).map { Int64($0) }))[0]
        #expect(few.byteCount == many.byteCount && many.byteCount < 64 << 10)
        #expect(many.items.count == 1 && many.arena.isEmpty)
        #expect(many.deliveryWeight < 6 << 20)
    }

    /// Large data is encoded by workers, once for each tag.
    @Test func recipientsWithOneTagShareALargeMessage() throws {
        let text = String(repeating: "x", count: 100_000)
        let node = Node.string(Text(text))
        let batch = Self.encode(Self.push(node, tags: (0..<1000).map { Int64($0 % 100) }))[0]
        guard case .tagged(let push)? = batch.items.first else {
            Issue.record("no tagged push")
            return
        }
        #expect(push.isLarge && batch.byteCount == 0)
        #expect(push.largeMessage(for: 5) === push.largeMessage(for: 5))
        #expect(push.largeMessage(for: 5) !== push.largeMessage(for: 6))
        #expect(push.largeMessage(for: 5).isShared)
    }
}
