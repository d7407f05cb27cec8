import PandoBytes
import PandoREST
import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoEngine

/// What a write of many locations sends to event streams (rest §8.2).
@Suite struct StreamUpdateTests {
    private static func session(_ slot: UInt32) -> SessionID { Bench.session(slot) }

    private static func merge(_ count: Int, to slots: ClosedRange<UInt32>) -> Push {
        var push = Push(
            body: .merge(
                "q",
                (0..<count).map {
                    Push.Entry(path: Path(trusted: "a\($0 % 7)/b\($0)"), node: .integer(Int64($0)))
                }))
        push.recipients = [ContiguousArray(slots.map { session($0) })]
        return push
    }

    /// The events are made once, and not at all where they are many, however many streams listen.
    @Test func streamsOfALocationShareTheEvents() throws {
        var encoder = OutputEncoder(queueCount: 1)
        for slot: UInt32 in 1...9 {
            encoder.streams[Self.session(slot)] = .init(
                path: slot <= 5 ? "q" : .root, query: nil, isQuery: false)
        }
        encoder.encode([Self.merge(1000, to: 1...9)])
        let batch = encoder.takeBatches(refillingFrom: OutputBatch.pool(loopCount: 1))[0]
        let updates = batch.items.compactMap { item -> StreamUpdate? in
            if case .update(_, let update) = item { update } else { nil }
        }
        #expect(updates.count == 9)
        #expect(updates.dropFirst().prefix(4).allSatisfy { $0 === updates[0] })
        #expect(updates.suffix(4).allSatisfy { $0 === updates[5] } && updates[5] !== updates[0])
        #expect(updates[0].events.count == 1000 && updates[5].events.first == .put("q/a0/b0", .integer(0)))
    }

    @Test func eventsOfFewLocationsAreMadeAtOnce() throws {
        var encoder = OutputEncoder(queueCount: 1)
        encoder.streams[Self.session(1)] = .init(path: "q", query: nil, isQuery: false)
        encoder.encode([Self.merge(StreamUpdate.leastCount - 1, to: 1...1)])
        let batch = encoder.takeBatches(refillingFrom: OutputBatch.pool(loopCount: 1))[0]
        guard case .events(_, let events) = batch.items[0] else {
            Issue.record("\(batch.items[0])")
            return
        }
        #expect(events.count == StreamUpdate.leastCount - 1)
    }

    /// A client reads the same bytes whether the events are made before they are printed, or while.
    @Test(arguments: [false, true]) func printsItsEvents(hasPriorities: Bool) throws {
        var form = JSONForm()
        form.hasPriorities = hasPriorities
        let nodes: [Node] = [
            .empty, .integer(-3), .double(2.5), .boolean(true), .string("a \"text\" \n"), .string(""),
            try Node(json: Array(#"{"a":[1,2],"b":{".value":3,".priority":1}}"#.utf8).rawSpan),
            .string(Text(String(repeating: "x", count: 100_000))),
        ]
        let shapes: [@Sendable (Int) -> String] = [
            { "k\($0)" }, { "same/k\($0)" }, { "d\($0 % 3)/k\($0)" }, { $0 == 7 ? "x/y/z" : "k\($0)" },
            { $0 == 7 ? "z" : "x/k\($0)" },
        ]
        for shape in shapes {
            for isQuery in [false, true] {
                for count in [2, 8, 300] {
                    let entries = (0..<count).map {
                        Push.Entry(path: Path(trusted: shape($0)), node: nodes[$0 % nodes.count])
                    }
                    let update = StreamUpdate(entries, at: "base", isQuery: isQuery)
                    var expected: [UInt8] = []
                    for event in update.events { expected.append(event: event, form) }
                    var (printed, largest) = ([UInt8](), 0)
                    var printer = StreamUpdatePrinter(update, form)
                    while let piece = printer.next() {
                        largest = max(largest, piece.count)
                        printed += piece
                    }
                    #expect(printed == expected, "\(shape(1)) \(isQuery) \(count)")
                    #expect(largest <= 3 * RESTLimits.pieceByteCount && printer.remainingCount == 0)
                }
            }
        }
    }
}
