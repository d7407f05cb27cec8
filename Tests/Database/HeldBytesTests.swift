import PandoBytes
import PandoEngine
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase

/// The database reports to each connection how many bytes its session holds.
@Suite struct HeldBytesTests {
    @Test func heldByteCountIsPublishedToTheConnection() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        func published() -> [Int] {
            var batches: [OutputBatch] = []
            bench.outputs.drain(into: &batches)
            return batches.flatMap(\.items).compactMap {
                if case .held(_, let count) = $0 { count } else { nil }
            }
        }
        for number in 0..<400 { bench.process([try Bench.listen(1, number, "/l/k\(number)")]) }
        let counts = published()
        #expect((3...20).contains(counts.count) && counts == counts.sorted() && counts.last! > 100_000)
        for number in 0..<400 {
            let unlisten = Action.unlisten(Path(["l", Key(unchecked: Text("k\(number)"))]), nil, tag: nil)
            bench.process([
                .request(
                    Bench.session(1), Request(number: 1, action: unlisten), .anonymous, byteCount: 100)
            ])
        }
        #expect(published().last == 0)
    }

    /// Windows that a write of another session makes large: their session holds more, and those of its
    /// listens end that it may not have any more.
    @Test func windowsThatGrowAreChargedAndEnd() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2)])
        func listen(_ number: Int) throws -> DatabaseMessage {
            let query = #"{"i":".value","sp":\#(-number)}"#
            let body = #"{"p":"/l","q":\#(query),"t":\#(number),"h":""}"#
            return try Bench.request(1, #"{"t":"d","d":{"r":\#(number),"a":"q","b":\#(body)}}"#)
        }
        for number in 1...20 { bench.process([try listen(number)]) }
        bench.host.processor.databases["demo"]!.engine.listenByteLimit = 200_000
        bench.work()
        _ = bench.takeMessages()
        let list = "{" + (0..<1000).map { #""k\#($0)":1"# }.joined(separator: ",") + "}"
        bench.process([try Bench.put(2, 1, "/l", list)])
        // Some windows are too much for the write itself.
        bench.work()
        var batches: [OutputBatch] = []
        bench.outputs.drain(into: &batches)
        let published = batches.flatMap(\.items).compactMap { item -> Int? in
            if case .held(_, let count) = item { count } else { nil }
        }
        #expect(published.contains { $0 > 150_000 } && published.allSatisfy { $0 < 300_000 })
        var revoked: [String] = []
        for batch in batches {
            for case .frames(Bench.session(1), let range) in batch.items {
                revoked += OutputBatch.messages(in: batch.arena[range]).map {
                    String(decoding: $0, as: UTF8.self)
                }.filter { $0.contains(#""a":"c""#) }
            }
        }
        #expect((14...18).contains(revoked.count), "\(revoked)")
        #expect(revoked.allSatisfy { $0.contains(#""i":".value""#) })
        bench.released.values.removeAll()
        bench.process([.closed(Bench.session(1))])
        #expect(bench.released.values.count { $0 is Window } == 20 - revoked.count)
    }
}
