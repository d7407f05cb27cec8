import PandoBytes
import PandoEngine
import PandoReactor
import PandoTime
import PandoTree
import Synchronization
import Testing

@testable import PandoDatabase

/// What large messages hold of the memory of others.
@Suite struct LargeMessageTests {
    private static func numbers(_ count: Int) -> Node {
        .object(
            Children(
                ascending: (0..<count).map {
                    Children.Entry(key: Key(unchecked: Text("k\(1_000_000 + $0)")), node: .integer(7))
                }))
    }

    private static func contents(of node: Node) -> [LargeMessage.Content] {
        [
            .reply(1, node), .filtered(1, node, IndexedQuery(Query())),
            .push(.overwrite(Path(["a"]), node), tag: nil),
        ]
    }

    /// A message whose client reads slowly stays for minutes, and a snapshot keeps all that is replaced.
    @Test func encodedMessageHoldsNoSnapshot() throws {
        let budget = EncodingBudget(byteLimit: .max, signalling: try WakeupEvent())
        var hashes = HashMemo()
        for content in Self.contents(of: Self.numbers(5000)) {
            let message = LargeMessage(content)
            let isHeavy = message.isHeavier(than: 1000, 100)
            let (number, isShared) = (message.requestNumber, message.isShared)
            #expect(message.content != nil)
            message.encode(within: budget, &hashes)
            #expect(message.content == nil && message.byteCount(from: 0) > 0)
            #expect(message.requestNumber == number && message.isShared == isShared)
            #expect(message.isHeavier(than: 1000, 100) == isHeavy, "asked for each receiver")
            let byteCount = message.byteCount(from: 0)
            message.encode(within: budget, &hashes)
            #expect(message.byteCount(from: 0) == byteCount)
        }
    }

    /// From the smallest that is large to the most that one is counted as.
    @Test(arguments: [(1, 32 << 10), (2000, 64_000), (100_000, 256 << 10)])
    func waitingReplyCountsAsItsValue(childCount: Int, byteCount: Int) {
        #expect(LargeMessage(.reply(1, Self.numbers(childCount))).waitingByteCount == byteCount)
    }

    /// The work of a query is noted though its message has let go of the query.
    @Test func workOfQueryIsNoted() throws {
        let noted = Mutex(0)
        var query = IndexedQuery(Query())
        query.noteWork = { work in noted.withLock { $0 += work } }
        var jobs = SnapshotJobs(
            SnapshotJobs.Resources(
                encodingBudget: EncodingBudget(byteLimit: .max, signalling: try WakeupEvent()),
                parsingBudget: ParsingBudget(byteLimit: .max), waits: true, hashByteLimit: 1 << 20,
                clients: SessionClients(), overflow: nil))
        let results = Mailbox<EncodedMessage>(signalling: try WakeupEvent())
        jobs.add(
            .encode(
                EncodingJob(
                    session: SessionID(1), message: LargeMessage(.filtered(1, Self.numbers(100), query)),
                    form: .frames, results: results)))
        var time: UInt64 = 1 << 60
        jobs.performNext {
            time += 5000
            return MonotonicTime(nanoseconds: time)
        }
        #expect(noted.withLock { $0 } == 5000)
    }
}
