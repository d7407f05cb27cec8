import CCounting
import PandoBytes
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoEngine

// What slow readers cost the writers.

extension StallTests {
    /// Calls for each further session that lags, in a debug build: far fewer than it misses locations.
    private static let callsPerSession = 400

    /// A write of many locations costs as much for a session that lags as a write of one.
    @Test func lateSessionCostsNoMoreForManyLocations() throws {
        let (few, many) = (10, 110)
        let calls = try (Self.callsForMerge(of: 1000, few), Self.callsForMerge(of: 1000, many))
        let perSession = (calls.1 - calls.0) / (many - few)
        #expect(perSession <= Self.callsPerSession, "\(calls)")
    }

    /// - Returns: Runtime calls of one merge.
    private static func callsForMerge(of pathCount: Int, _ sessionCount: Int) throws -> Int {
        let bench = try Bench(directory: nil, slowThreshold: .max)
        bench.process([Bench.open(1)])
        for slot in 2..<UInt32(2 + sessionCount) {
            bench.process([Bench.open(slot), try Bench.listen(slot, 1, "/q"), .lagging(Bench.session(slot))])
        }
        let entries = (0..<pathCount).map { number in
            Write(
                Target(Path(trusted: "q/a\(number % 100)/b/k\(number)/c/d/e/f")),
                Draft(.integer(Int64(number))))
        }
        var batch = [
            DatabaseMessage.request(
                Bench.session(1), Request(number: 1, action: .merge("q", entries)), .admin,
                byteCount: 1000)
        ]
        pando_counting_start()
        bench.host.receive(&batch)
        let counts = pando_counting_stop()
        for slot in 2..<UInt32(2 + sessionCount) {
            let missed = bench.host.processor.coalescer.missedChanges(of: Bench.session(slot))
            #expect(missed?.isEmpty == false)
        }
        return Int(counts.allocations + counts.retains + counts.releases)
    }

    /// A write of many locations costs as much for an event stream as a write of one.
    @Test func eventStreamCostsNoMoreForManyLocations() {
        let (few, many) = (10, 110)
        let calls = (Self.callsForStreams(few), Self.callsForStreams(many))
        #expect((calls.1 - calls.0) / (many - few) <= Self.callsPerSession, "\(calls)")
    }

    /// - Returns: Runtime calls to encode one merge for event streams.
    private static func callsForStreams(_ streamCount: Int) -> Int {
        var encoder = OutputEncoder(queueCount: 1)
        let sessions = ContiguousArray((1...UInt32(streamCount)).map { Bench.session($0) })
        for session in sessions {
            encoder.streams[session] = .init(path: "q", query: nil, isQuery: false)
        }
        var push = Push(
            body: .merge(
                "q",
                (0..<1000).map {
                    Push.Entry(path: Path(trusted: "a\($0 % 7)/b\($0)"), node: .integer(Int64($0)))
                }))
        push.recipients = [sessions]
        let pushes = [push]
        pando_counting_start()
        encoder.encode(pushes)
        let counts = pando_counting_stop()
        return Int(counts.allocations + counts.retains + counts.releases)
    }

    /// A stream on a query window opens, and catches up, at the same cost whatever the window's size: a
    /// worker makes the node.
    @Test func eventStreamCostsNoMoreForLargeWindows() {
        let calls = (Self.callsForWindow(of: 1000), Self.callsForWindow(of: 20_000))
        #expect(calls.1 <= calls.0 + Self.callsPerSession, "\(calls)")
    }

    /// - Returns: Runtime calls of a stream that opens, while another one has the window, and catches up.
    private static func callsForWindow(of childCount: Int) -> Int {
        let query = Query(order: .key)
        let listen = Listen(path: "q", query: query, tag: 1)
        var root = Node.empty
        root.set(StreamWindowTests.node(childCount), at: "q")
        var tree = LiveTree(root: root)
        var encoder = OutputEncoder(queueCount: 1)
        for slot: UInt32 in 1...2 {
            encoder.streams[Bench.session(slot)] = .init(path: "q", query: query, isQuery: true)
        }
        encoder.encode(tree.begin(listen, for: Bench.session(1)))
        pando_counting_start()
        encoder.encode(tree.begin(listen, for: Bench.session(2)))
        encoder.encode(catchUp: tree.catchUp(Bench.session(2), paths: [], tags: [1]))
        let counts = pando_counting_stop()
        return Int(counts.allocations + counts.retains + counts.releases)
    }

    /// A session that catches up is not sent its windows one after the other before others get their turn: a
    /// worker makes them.
    @Test func windowsAreCaughtUpElsewhere() throws {
        let (few, many) = (20, 1200)
        let calls = try (
            Self.callsToCatchUp(windows: 100, of: few), Self.callsToCatchUp(windows: 100, of: many)
        )
        #expect(calls.1 <= calls.0 * 3 / 2 + 10_000, "\(calls)")
    }

    /// - Returns: Runtime calls to catch up one session.
    private static func callsToCatchUp(windows windowCount: Int, of childCount: Int) throws -> Int {
        let bench = try Bench(directory: nil, slowThreshold: .max)
        let children = (0..<childCount).map { "\"k\(1000 + $0)\":\($0)" }.joined(separator: ",")
        bench.process([Bench.open(1), Bench.open(2), try Bench.put(2, 0, "/q", "{\(children)}")])
        for number in 0..<windowCount {
            bench.process([
                try Bench.request(
                    1,
                    #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"/q","q":{"i":".key","sp":"a\#(number)"},"t":\#(number + 1),"h":""}}}"#
                )
            ])
            bench.work()
        }
        bench.process([.lagging(Bench.session(1)), try Bench.put(2, 1, "/q/k1003", "-1")])
        var batch: [DatabaseMessage] = [.caughtUp(Bench.session(1))]
        pando_counting_start()
        bench.host.receive(&batch)
        let counts = pando_counting_stop()
        #expect(bench.host.processor.coalescer.isEmpty && !bench.host.hasWork)
        return Int(counts.allocations + counts.retains + counts.releases)
    }
}
