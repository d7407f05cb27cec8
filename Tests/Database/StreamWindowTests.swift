import PandoBytes
import PandoREST
import PandoReactor
import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoEngine

/// What a large query window sends to event streams (rest §8.2).
@Suite struct StreamWindowTests {
    private static let query = Query(order: .key)
    private static let listen = Listen(path: "q", query: query, tag: 1)

    static func node(_ count: Int) -> Node {
        .object(
            Children(
                ascending: (0..<count).map {
                    .init(key: Key(unchecked: Text("k\(100_000 + $0)")), node: .integer(Int64($0)))
                }))
    }

    /// Streams, and the databases that they listen to.
    private struct Streams: ~Copyable {
        var tree: LiveTree
        var encoder = OutputEncoder(queueCount: 1)

        init(_ count: Int) {
            var root = Node.empty
            root.set(StreamWindowTests.node(count), at: "q")
            tree = LiveTree(root: root)
        }

        mutating func open(_ slot: UInt32) -> OutputBatch.Item? {
            encoder.streams[Bench.session(slot)] = .init(
                path: "q", query: StreamWindowTests.query, isQuery: true)
            encoder.encode(tree.begin(StreamWindowTests.listen, for: Bench.session(slot)))
            return takeItem()
        }

        mutating func catchUp(_ slot: UInt32) -> OutputBatch.Item? {
            encoder.encode(catchUp: tree.catchUp(Bench.session(slot), paths: [], tags: [1]))
            return takeItem()
        }

        /// A window that is not to be found again is sent to a stream.
        mutating func sendWindowWithoutIdentity(_ slot: UInt32) -> OutputBatch.Item? {
            encoder.streams[Bench.session(slot)] = .init(
                path: "q", query: StreamWindowTests.query, isQuery: true)
            var state = InitialState(path: "q", node: .empty)
            state.window = Window(StreamWindowTests.query, over: StreamWindowTests.node(300))
            var push = Push(body: .initial(state))
            push.taggedRecipients = [.init(session: Bench.session(slot), tag: 1)]
            encoder.encode([push])
            return takeItem()
        }

        private mutating func takeItem() -> OutputBatch.Item? {
            encoder.takeBatches(refillingFrom: OutputBatch.pool(loopCount: 1))[0].items.last
        }
    }

    private static func window(_ item: OutputBatch.Item?) -> StreamWindow? {
        if case .window(_, let window)? = item { window } else { nil }
    }

    /// A small window is an event at once. A large one is passed on as it is.
    @Test(arguments: [1, 256, 257, 5000], [false, true])
    func windowsOfAnySizeAreSent(count: Int, catchesUp: Bool) throws {
        var streams = Streams(count)
        var item = streams.open(1)
        if catchesUp { item = streams.catchUp(1) }
        guard count > LiveTree.inlineQueryChildCount else {
            guard case .events(_, let events)? = item else {
                Issue.record("\(String(describing: item))")
                return
            }
            #expect(events == [.put("/", Self.node(count))])
            return
        }
        let window = try #require(Self.window(item))
        #expect(window.node == nil && window.isTooHeavy == nil, "the databases make nothing of it")
        #expect(window.events == [.put("/", Self.node(count))])
        window.make()
        #expect(window.node == Self.node(count) && window.isTooHeavy == false)
        #expect(window.events == [.put("/", Self.node(count))])
    }

    /// Streams that open or catch up while the window is the same have one node.
    @Test func streamsShareAWindowUntilItChanges() throws {
        var streams = Streams(1000)
        var item = streams.open(1)
        let first = try #require(Self.window(item))
        item = streams.open(2)
        #expect(Self.window(item) === first)
        first.make()
        item = streams.catchUp(1)
        #expect(Self.window(item) === first)
        for number in 0..<3 {
            let value = Node.integer(Int64(-number - 1))
            _ = streams.tree.put(Change(path: "q/k100001", node: value))
            item = streams.open(3)
            let later = try #require(Self.window(item))
            item = streams.catchUp(1)
            #expect(later !== first && Self.window(item) === later)
            later.make()
            #expect(later.node?[Key(unchecked: Text("k100001"))] == value)
        }
        #expect(first.node == Self.node(1000), "it is what it was")
    }

    /// Windows that no further stream can share do not displace one that is shared.
    @Test func windowsWithoutIdentityTakeNoPlace() throws {
        var streams = Streams(1000)
        var item = streams.open(1)
        let first = try #require(Self.window(item))
        var others: [StreamWindow] = []
        for slot in 2..<100 as Range<UInt32> {
            item = streams.sendWindowWithoutIdentity(slot)
            let other = try #require(Self.window(item))
            #expect(other.identity == nil)
            others.append(other)
        }
        item = streams.open(100)
        #expect(Self.window(item) === first)
    }

    /// Only the streams that still have to send a window keep it in memory.
    @Test func windowThatNoStreamHoldsIsFreed() throws {
        var streams = Streams(1000)
        weak var first: StreamWindow?
        do {
            let item = streams.open(1)
            let window = try #require(Self.window(item))
            first = window
            #expect(first != nil)
        }
        #expect(first == nil)
        let item = streams.open(2)
        #expect(Self.window(item)?.events.count == 1)
    }

    /// The node takes a thread of its own where it is large; where it is made, nothing is left to do.
    @Test func jobsAreWeighedByTheirChildren() throws {
        let window = StreamWindow(Window(Self.query, over: Self.node(5000)))
        let results = Mailbox<NodeSizeCheck>(signalling: try WakeupEvent())
        let job = SnapshotJob.streamWindow(
            StreamWindowJob(session: Bench.session(1), window: window, results: results))
        #expect(job.isHeavier(than: 1 << 20, 4999) && !job.isHeavier(than: 1 << 20, 5000))
        #expect(!NodeSizeCheck(making: window, for: Bench.session(1)).isTooHeavy)
        #expect(!job.isHeavier(than: 1 << 20, 10))
    }

    /// Each stream counts its part of what they share.
    @Test func streamsCountTheirShares() {
        let window = StreamWindow(Window(Self.query, over: Self.node(1000)))
        #expect(window.byteCount == 32_000)
        let share = StreamWindow.Share(window)
        #expect(share.byteCount == 32_000)
        do {
            let others = (0..<3).map { _ in StreamWindow.Share(window) }
            #expect(share.byteCount == 8000 && others[2].byteCount == 8000)
        }
        #expect(share.byteCount == 32_000)
    }
}
