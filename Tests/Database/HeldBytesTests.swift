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
}
