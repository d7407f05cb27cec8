import PandoBytes
import PandoEngine
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase

/// What connections are told that their sessions hold in the databases.
@Suite struct HeldBytesTests {
    /// A connection is told what its session holds, up to nothing.
    @Test func heldBytesAreTold() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        func told() -> [Int] {
            var batches: [OutputBatch] = []
            bench.outputs.drain(into: &batches)
            return batches.flatMap(\.items).compactMap {
                if case .held(_, let count) = $0 { count } else { nil }
            }
        }
        for number in 0..<400 { bench.process([try Bench.listen(1, number, "/l/k\(number)")]) }
        let counts = told()
        #expect((3...20).contains(counts.count) && counts == counts.sorted() && counts.last! > 100_000)
        for number in 0..<400 {
            let unlisten = Action.unlisten(Path(["l", Key(unchecked: Text("k\(number)"))]), nil, tag: nil)
            bench.process([
                .request(
                    Bench.session(1), Request(number: 1, action: unlisten), .anonymous, byteCount: 100)
            ])
        }
        #expect(told().last == 0)
    }
}
